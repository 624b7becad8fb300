"""The pytest plugin, in a project that has names of its own: config.py, broker/, tests/."""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

THEIRS = {
    "config.py": "OURS = 'ours'\n",
    "broker/__init__.py": "",
    "broker/server.py": "OURS = 'ours'\n",
    "tests/__init__.py": "",
}
CLIENT = """
    import socket, sys

    def is_served(broker):
        # An ApiVersions request, version 0, is answered with its correlation id.
        with socket.create_connection((broker.host, broker.port), 10) as connection:
            connection.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
            return connection.recv(8)[4:] == bytes.fromhex("00000007")
"""


class Project:
    """Somebody's project, whose tests are run by a pytest of its own."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "pytest.ini").write_text(
            "[pytest]\npythonpath = .\naddopts = -p no:randomly\n"
        )
        for name, text in THEIRS.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def write_tests(self, source):
        lines = (CLIENT + source).splitlines()
        self.write("tests/test_theirs.py", "\n".join(line.removeprefix("    ") for line in lines))

    def run(self, *arguments):
        command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def project(tmp_path):
    directory = tmp_path / "project"
    directory.mkdir()
    return Project(directory)


def test_one_broker_serves_all_tests_of_a_run_and_ends_with_it(project):
    project.write_tests("""
    def test_one(odradek):
        assert is_served(odradek)
        print("pid", odradek.pid)

    def test_two(odradek):
        assert is_served(odradek)
        print("pid", odradek.pid)
    """)
    ran = project.run("-s")
    assert ran.returncode == 0, ran.stdout
    pids = set(re.findall(r"pid (\d+)", ran.stdout))
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.pop()), 0)


def test_nothing_of_ours_is_imported_into_the_tests(project):
    project.write_tests("""
    import broker.server, config, sys

    def test_names_are_theirs(odradek):
        assert is_served(odradek)
        assert (config.OURS, broker.server.OURS) == ("ours", "ours")
        ours = {name for name in sys.modules if name.partition(".")[0] == "odradek"}
        assert ours == {"odradek", "odradek.pytest_plugin"}
    """)
    ran = project.run()
    assert ran.returncode == 0, ran.stdout


def test_the_broker_does_not_import_what_lies_beside_the_tests(project):
    project.write("sqlite3.py", "raise RuntimeError('not meant for the broker')\n")
    project.write_tests("""
    def test_is_served(odradek):
        assert is_served(odradek)
    """)
    ran = project.run()
    assert ran.returncode == 0, ran.stdout


def test_a_broker_of_its_own_has_the_settings_of_the_marker(project):
    ini = project.directory / "pytest.ini"
    ini.write_text(ini.read_text() + "odradek_settings =\n    broker.id=5\n    num.partitions=2\n")
    project.write_tests("""
    import pytest

    pytestmark = pytest.mark.odradek("broker.id=6")

    def broker_id(broker):
        return (broker.data_dir / "meta.properties").read_text().partition("broker.id=")[2][0]

    @pytest.mark.odradek("broker.id=7")
    def test_own(odradek_per_test, odradek):
        assert broker_id(odradek_per_test) == "7"
        assert broker_id(odradek) == "5"
        assert odradek_per_test.address != odradek.address
        assert is_served(odradek_per_test) and is_served(odradek)

    def test_modules(odradek_per_test):
        assert broker_id(odradek_per_test) == "6"
    """)
    ran = project.run("--strict-markers")
    assert ran.returncode == 0, ran.stdout


def test_a_broker_can_be_stopped_killed_and_started_again(project):
    project.write_tests("""
    def test_it(odradek_per_test):
        address = odradek_per_test.address
        odradek_per_test.restart()
        assert is_served(odradek_per_test)
        odradek_per_test.kill()
        assert not odradek_per_test.is_running()
        odradek_per_test.start()
        assert is_served(odradek_per_test)
        assert odradek_per_test.address == address
        odradek_per_test.stop()
    """)
    ran = project.run()
    assert ran.returncode == 0, ran.stdout


def test_what_the_broker_wrote_is_in_the_report_of_a_test_that_fails(project):
    project.write_tests("""
    import pytest

    @pytest.fixture
    def mine(odradek):
        return odradek.address

    def test_fails(mine):
        assert False

    def test_has_nothing_to_do_with_it():
        assert False

    def test_is_fine(odradek):
        pass
    """)
    ran = project.run()
    assert ran.returncode == 1
    assert len(re.findall(r"--- Odradek at 127.0.0.1:\d+ ---", ran.stdout)) == 1
    assert re.search(r"Broker \d+ of cluster \S+ started", ran.stdout)


def test_a_report_has_nothing_of_a_broker_that_the_test_does_not_use(project):
    project.write_tests("""
    def test_is_fine(odradek):
        print("session", odradek.port)

    def test_fails(odradek_per_test):
        print("own", odradek_per_test.port)
        assert False
    """)
    ran = project.run("-s")
    assert ran.returncode == 1, ran.stdout
    (own,) = re.findall(r"own (\d+)", ran.stdout)
    assert re.findall(r"Odradek at 127.0.0.1:(\d+)", ran.stdout) == [own]


def test_a_broker_that_cannot_start_says_why(project):
    project.write_tests("""
    import pytest

    @pytest.mark.odradek("broker.id=x")
    def test_it(odradek_per_test):
        pass
    """)
    ran = project.run()
    assert ran.returncode == 1
    assert "exited with status 1 before it was ready; its log:" in ran.stdout
    assert "odradek: --override: broker.id=x: must be" in ran.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_broker_does_not_outlive_a_pytest_that_is_killed(project):
    project.write_tests("""
    import os, signal

    def test_it(odradek):
        print("pid", odradek.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    ran = project.run("-s")
    assert ran.returncode == -signal.SIGKILL
    pid = int(re.search(r"pid (\d+)", ran.stdout)[1])
    assert wait_for_end(pid)


def wait_for_end(pid):
    """Also of a zombie that nobody has waited for."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True

    poll = select.poll()  # select() takes no descriptor above 1,023
    poll.register(descriptor, select.POLLIN)
    try:
        return bool(poll.poll(10_000))
    finally:
        os.close(descriptor)


def test_the_script_that_ties_the_broker_to_pytest_is_where_the_plugin_looks():
    plugin = pytest.importorskip("odradek.pytest_plugin")
    assert Path(plugin._TIED_PROCESS_SCRIPT).is_file()
