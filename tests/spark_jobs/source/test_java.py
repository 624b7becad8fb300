"""``provide_java`` finds a Java home or explains what is missing."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source import java
from odradek.spark_jobs.source.java import provide_java


@pytest.fixture
def usual(tmp_path, monkeypatch):
    """The usual installation directory of Java, still empty."""
    directory = tmp_path / "jvm"
    monkeypatch.setattr(java, "JAVA_HOME_PATTERNS", (f"{directory}/*",))
    return directory


def install(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_is_used_as_given(usual, tmp_path):
    install(usual / "newer", "21.0.1")
    home = install(tmp_path / "mine", "17.0.15")
    environment = {"JAVA_HOME": str(home)}
    assert provide_java(environment) == home
    assert environment == {"JAVA_HOME": str(home)}


def test_path_is_searched_before_the_usual_directories(usual, tmp_path):
    installed = install(usual / "jdk-21", "21")
    environment = {"PATH": str(tmp_path)}
    assert provide_java(environment) == installed
    assert environment["JAVA_HOME"] == str(installed)
    on_path = install(tmp_path / "on-path", "17")
    assert provide_java({"PATH": str(on_path / "bin")}) == on_path


def test_version_that_is_too_old_is_skipped(usual, tmp_path):
    old = install(tmp_path / "old", "1.8.0_392")
    new = install(usual / "jdk-17", "17.0.1")
    assert provide_java({"PATH": str(old / "bin")}) == new


def test_java_without_a_release_file_is_accepted(usual, tmp_path):
    unversioned = install(tmp_path / "silent", None)
    assert provide_java({"PATH": str(unversioned / "bin")}) == unversioned


def test_missing_java_is_reported_in_one_line(usual, tmp_path):
    with pytest.raises(ScanFailed, match=r"^Spark needs Java 17 or newer, but none was found on"):
        provide_java({"PATH": str(tmp_path)})


def test_only_old_java_is_reported_in_one_line(usual, tmp_path):
    old = install(tmp_path / "old", "11.0.2")
    for environment in ({"PATH": str(old / "bin")}, {"JAVA_HOME": str(old)}):
        with pytest.raises(ScanFailed, match="bin/java is Java 11, but Spark needs 17 or newer"):
            provide_java(environment)


def test_java_home_without_java_is_reported(usual, tmp_path):
    with pytest.raises(ScanFailed, match=r"JAVA_HOME=.*: there is no bin/java in it"):
        provide_java({"JAVA_HOME": str(tmp_path)})
