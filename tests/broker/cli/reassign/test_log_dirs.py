"""A reassignment plan that names log directories moves replicas between them."""

import json

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.command_line import CommandLine

INCOMPLETE = 3
BROKER_ID = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def broker(folder):
    log_dirs = f"log.dirs={folder / 'logs'},{folder / 'more'}"
    with BrokerProcess(folder / "logs", log_dirs, f"broker.id={BROKER_ID}").start() as running:
        yield running


@pytest.fixture
def command(broker, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, broker.address)


def plan(folder, topic, directory):
    replicas = {"replicas": [BROKER_ID], "log_dirs": [str(directory)]}
    path = folder / "plan.json"
    path.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, **replicas}]}))
    return path


def test_replica_is_moved_to_the_directory_in_the_plan(command, folder):
    command("topics", "create", "moved")
    (current,) = folder.glob("*/moved-0")
    (other,) = {folder / "logs", folder / "more"} - {current.parent}
    path = plan(folder, "moved", other)
    assert command("reassign", "verify", path).status == INCOMPLETE
    lines = command("reassign", "execute", path, "--wait").lines
    assert lines[-1].startswith("1 of 1 partitions moved, ")
    assert (other / "moved-0").is_dir()
    assert command("reassign", "verify", path).rows == [["moved", "0", "moved", f"{BROKER_ID}"]]


def test_unknown_directory_is_reported(command, folder):
    command("topics", "create", "kept")
    result = command("reassign", "execute", plan(folder, "kept", "/nowhere"))
    assert result.status == 1
    assert result.err.startswith(f"odradek: kept:0 at broker {BROKER_ID}: LOG_DIR_NOT_FOUND: ")
