"""Java is found, or its absence explained."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source import java
from odradek.spark_jobs.source.java import provide_java


@pytest.fixture
def usual(tmp_path, monkeypatch):
    """Where Java usually is, empty so far."""
    place = tmp_path / "jvm"
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{place}/*",))
    return place


def install(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_is_taken_at_its_word(usual, tmp_path):
    install(usual / "newer", "21.0.1")
    home = install(tmp_path / "mine", "17.0.15")
    environment = {"JAVA_HOME": str(home)}
    assert provide_java(environment) == home
    assert environment == {"JAVA_HOME": str(home)}


def test_then_the_path_and_then_the_usual_places(usual, tmp_path):
    there = install(usual / "jdk-21", "21")
    environment = {"PATH": str(tmp_path)}
    assert provide_java(environment) == there
    assert environment["JAVA_HOME"] == str(there)
    on_path = install(tmp_path / "on-path", "17")
    assert provide_java({"PATH": str(on_path / "bin")}) == on_path


def test_one_that_is_too_old_is_passed_over_for_a_newer_one(usual, tmp_path):
    old = install(tmp_path / "old", "1.8.0_392")
    new = install(usual / "jdk-17", "17.0.1")
    assert provide_java({"PATH": str(old / "bin")}) == new


def test_one_that_does_not_tell_its_version_is_trusted(usual, tmp_path):
    silent = install(tmp_path / "silent", None)
    assert provide_java({"PATH": str(silent / "bin")}) == silent


def test_none_at_all_is_explained_in_a_line(usual, tmp_path):
    with pytest.raises(ScanFailed, match=r"^Spark needs Java 17 or newer, and there is none on"):
        provide_java({"PATH": str(tmp_path)})


def test_too_old_and_no_other_is_explained_in_a_line(usual, tmp_path):
    old = install(tmp_path / "old", "11.0.2")
    for environment in ({"PATH": str(old / "bin")}, {"JAVA_HOME": str(old)}):
        with pytest.raises(ScanFailed, match="bin/java is Java 11, and Spark needs 17 or newer"):
            provide_java(environment)


def test_a_java_home_without_java_is_told(usual, tmp_path):
    with pytest.raises(ScanFailed, match="and there is no bin/java in it"):
        provide_java({"JAVA_HOME": str(tmp_path)})
