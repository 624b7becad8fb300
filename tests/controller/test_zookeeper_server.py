"""Start, readiness and end of a ZooKeeper server that runs from jars."""

import os
import select
import signal
import subprocess
import sys

import pytest

from odradek.controller import zookeeper_server
from odradek.controller.tied_process import tied_command
from odradek.controller.zookeeper_server import (
    CannotStart,
    ZooKeeperServer,
    find_classpath,
    four_letter_word,
    main,
)
from tests.support.free_ports import free_port
from tests.support.zookeeper import server_in, skip_without_zookeeper

COMMAND = [sys.executable, "-m", "odradek.controller.zookeeper_server"]


def has_ended(pid, *, timeout_ms=20_000):
    """Wait for the end of the process, which is not a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    try:
        return bool(poller.poll(timeout_ms))
    finally:
        os.close(descriptor)


@pytest.fixture
def command(tmp_path):
    """The started command: its process, the pid of its ZooKeeper server and the port."""
    skip_without_zookeeper()
    port = free_port()
    process = subprocess.Popen(
        tied_command([*COMMAND, "--data-dir", str(tmp_path / "zookeeper"), "--port", str(port)]),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == f"ZooKeeper listens on 127.0.0.1:{port}\n"
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        with open(children) as pids:
            (server,) = map(int, pids.read().split())
        yield process, server, port
        process.kill()


def test_command_prints_the_address_when_the_server_responds(command):
    _, _, port = command
    assert four_letter_word("ruok", host="127.0.0.1", port=port) == "imok"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_server_ends_with_the_command(command, ending):
    process, server, _ = command
    process.send_signal(ending)
    assert process.wait(20) == (-ending if ending == signal.SIGKILL else 0)
    assert has_ended(server)


def test_command_ends_with_the_server(command):
    process, server, _ = command
    os.kill(server, signal.SIGKILL)
    assert process.wait(20) == 1


def test_server_can_be_restarted_and_prints_little(tmp_path):
    skip_without_zookeeper()
    server = server_in(tmp_path)
    server.start()
    server.kill()
    assert not server.is_responding()
    server.start()
    assert server.is_responding()
    server.stop()
    assert not server.is_running()
    assert len(server.output_file.read_text().splitlines()) < 10


def test_taken_port_is_reported(zookeeper, tmp_path):
    second = ZooKeeperServer(tmp_path, port=zookeeper.port, properties={"maxClientCnxns": "1"})
    second.is_responding = lambda: False
    with pytest.raises(CannotStart, match="Address already in use"):
        second.start()
    assert not second.is_running()


def output_of(capsys, *arguments):
    handlers = {ending: signal.getsignal(ending) for ending in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = main(arguments)
    finally:
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
    return code, capsys.readouterr().err


@pytest.fixture
def arguments(tmp_path):
    return "--data-dir", str(tmp_path), "--port", "1"


def test_missing_java_is_reported_with_the_package_to_install(
    monkeypatch, tmp_path, capsys, arguments
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, error_output = output_of(capsys, *arguments)
    assert code == 1
    assert error_output.count("\n") == 1
    assert "apt-get install default-jre-headless" in error_output


def test_missing_jars_are_reported_with_their_source(monkeypatch, capsys, arguments):
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(zookeeper_server, "find_java", lambda: "java")
    monkeypatch.setattr(zookeeper_server, "_pyspark_jars", list)
    code, error_output = output_of(capsys, *arguments)
    assert code == 1
    assert error_output.count("\n") == 1
    assert "odradek[spark]" in error_output


def test_jars_of_zookeeper_home_are_used_first(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    jars = [tmp_path / "lib" / name for name in ("logback-core-1.jar", "zookeeper-3.8.4.jar")]
    for jar in jars:
        jar.touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    assert find_classpath() == os.pathsep.join(map(str, jars))


def test_zookeeper_home_without_jars_is_rejected(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    with pytest.raises(CannotStart, match="ZOOKEEPER_HOME"):
        find_classpath()
