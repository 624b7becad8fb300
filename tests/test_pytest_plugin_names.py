"""The pytest plugin where the project's own modules, on its path, are named as ours are."""

import os
import re
import subprocess
import sys

import pytest

from tests.test_pytest_plugin import project

__all__ = ["project"]

#: The packages of ours that have common names, and a module in each.
NAMES = {"config": "settings", "broker": "server", "storage": "log", "protocol": "codec"}
NAMES |= {"controller": "controller", "spark_jobs": "job"}
THEIRS = """
import sys

OURS = "ours"
if "pytest" not in sys.modules:
    raise RuntimeError("somebody else's module is imported by the broker")
"""


@pytest.fixture
def named_as_ours(project):
    """A project with packages of all these names."""
    (project.directory / "config.py").unlink()
    for package, module in NAMES.items():
        project.write(f"{package}/__init__.py", THEIRS)
        project.write(f"{package}/{module}.py", THEIRS)
    project.write_tests("""
    import broker.server, config.settings, controller.controller, protocol.codec, storage.log
    import spark_jobs.job, tests

    THEIRS = [broker.server, config.settings, controller.controller, protocol.codec, storage.log]
    THEIRS += [spark_jobs.job]

    def are_theirs():
        return all(module.OURS == "ours" for module in THEIRS) and "theirs" in __name__

    def test_for_all(odradek):
        assert is_served(odradek) and are_theirs()
        print("pid", odradek.pid, flush=True)

    def test_for_one(odradek_per_test):
        assert is_served(odradek_per_test) and are_theirs()

    def test_for_all_again(odradek):
        assert is_served(odradek) and are_theirs()
        print("pid", odradek.pid, flush=True)
    """)
    return project


def run(project, *arguments):
    """As most people do, so that the project is on the path of pytest, and of the broker too."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project.directory,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_tests_have_their_modules_and_the_broker_its_own(named_as_ours):
    ran = run(named_as_ours)
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout


def test_each_process_of_a_parallel_run_has_a_broker(named_as_ours):
    pytest.importorskip("xdist")
    ran = run(named_as_ours, "-n", "2", "--dist", "each", "-rP")
    assert ran.returncode == 0, ran.stdout
    assert "6 passed" in ran.stdout
    assert len(set(re.findall(r"^pid (\d+)$", ran.stdout, re.MULTILINE))) == 2
