"""A ZooKeeper started from jars: what it needs, when it is ready, and how it ends."""

import os
import select
import signal
import subprocess
import sys

import pytest

from odradek.controller import zookeeper_server
from odradek.controller.tied_process import tied
from odradek.controller.zookeeper_server import (
    CannotStart,
    ZooKeeperServer,
    found_classpath,
    four_letter_word,
    main,
)
from tests.support.free_ports import free_port
from tests.support.zookeeper import server_in, skip_without_zookeeper

COMMAND = [sys.executable, "-m", "odradek.controller.zookeeper_server"]


def has_ended(pid, *, timeout_ms=20_000):
    """Waits for it; the process is no child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    try:
        return bool(waiting.poll(timeout_ms))
    finally:
        os.close(descriptor)


@pytest.fixture
def command(tmp_path):
    """The command, started and ready: its process, and the pid of its server."""
    skip_without_zookeeper()
    port = free_port()
    process = subprocess.Popen(
        tied([*COMMAND, "--data-dir", str(tmp_path / "zookeeper"), "--port", str(port)]),
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


def test_the_command_says_when_clients_are_answered(command):
    _, _, port = command
    assert four_letter_word("ruok", host="127.0.0.1", port=port) == "imok"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_server_ends_with_the_command_however_that_ends(command, ending):
    process, server, _ = command
    process.send_signal(ending)
    assert process.wait(20) == (-ending if ending == signal.SIGKILL else 0)
    assert has_ended(server)


def test_the_command_ends_when_the_server_does(command):
    process, server, _ = command
    os.kill(server, signal.SIGKILL)
    assert process.wait(20) == 1


def test_a_server_prints_little_and_may_be_started_again(tmp_path):
    skip_without_zookeeper()
    server = server_in(tmp_path)
    server.start()
    server.kill()
    assert not server.answers()
    server.start()
    assert server.answers()
    server.stop()
    assert not server.is_running()
    assert len(server.output.read_text().splitlines()) < 10


def test_a_port_that_is_taken_is_told(zookeeper, tmp_path):
    second = ZooKeeperServer(tmp_path, port=zookeeper.port, properties={"maxClientCnxns": "1"})
    second.answers = lambda: False
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


def test_without_java_it_says_what_to_install(monkeypatch, tmp_path, capsys, arguments):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said = output_of(capsys, *arguments)
    assert code == 1
    assert said.count("\n") == 1
    assert "apt-get install default-jre-headless" in said


def test_without_jars_it_says_where_to_get_them(monkeypatch, capsys, arguments):
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(zookeeper_server, "java_program", lambda: "java")
    monkeypatch.setattr(zookeeper_server, "_pyspark_jars", list)
    code, said = output_of(capsys, *arguments)
    assert code == 1
    assert said.count("\n") == 1
    assert "odradek[spark]" in said


def test_the_jars_of_an_unpacked_zookeeper_go_first(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    jars = [tmp_path / "lib" / name for name in ("logback-core-1.jar", "zookeeper-3.8.4.jar")]
    for jar in jars:
        jar.touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    assert found_classpath() == os.pathsep.join(map(str, jars))


def test_a_folder_without_zookeeper_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    with pytest.raises(CannotStart, match="ZOOKEEPER_HOME"):
        found_classpath()
