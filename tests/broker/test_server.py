"""The start and shutdown of a whole broker."""

import asyncio

import pytest

from odradek.broker import server
from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.metadata_store import FILE_NAME
from odradek.broker.server import ControllerNotReachable, KafkaServer
from odradek.broker.settings.sources import load
from odradek.broker.startup_errors import STARTUP_ERRORS
from odradek.broker.worker_process import WorkerProcess
from odradek.controller.store.data_tree import DataTree
from odradek.protocol.errors import RequestTimedOut
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.meta_properties import InvalidLogDirectory
from tests.support.free_ports import free_port
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore


def broker_on(data_dir, *overrides):
    properties = [f"log.dirs={data_dir}", "listeners=PLAINTEXT://127.0.0.1:0", *overrides]
    broker = KafkaServer(load(file=None, environment={}, overrides=properties))
    at_end(broker.stop)
    return broker


async def test_broker_that_its_controller_cannot_reach_names_the_address(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "FIRST_METADATA_TIMEOUT_S", 0.5)
    advertised = f"PLAINTEXT://127.0.0.1:{free_port()}"
    broker = broker_on(tmp_path / "logs", f"advertised.listeners={advertised}")
    with pytest.raises(
        ControllerNotReachable, match=rf"at {advertised}, .*: see advertised\.listeners"
    ):
        await broker.start()
    assert ControllerNotReachable in STARTUP_ERRORS


async def test_stray_logs_are_kept_and_logged_and_do_not_delay_the_start(tmp_path, caplog):
    for name in ("ghost-0", "ghost-1"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    broker = broker_on(tmp_path / "logs")
    started_s = asyncio.get_running_loop().time()
    await broker.start()
    assert asyncio.get_running_loop().time() - started_s < server.LOCAL_LEADERS_TIMEOUT_S
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "Found stray partitions not assigned to this broker, keeping their logs: ghost-0, ghost-1"
    ]
    assert (tmp_path / "logs" / "ghost-1" / "00000000000000000000.log").exists()


async def test_log_directory_put_first_does_not_get_a_new_store(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for directories in (f"{old}", f"{new},{old}"):
        broker = broker_on(directories)
        await broker.start()
        await broker.stop()
    assert (old / FILE_NAME).exists()
    assert not (new / FILE_NAME).exists()


async def test_missing_store_is_not_created_if_a_log_directory_belongs_to_a_cluster(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    broker = broker_on(f"{first},{second}")
    await broker.start()
    await broker.stop()
    first.rename(tmp_path / "not mounted")
    with pytest.raises(InvalidLogDirectory, match=rf"{FILE_NAME}, .*{second} belongs to a cluster"):
        await broker_on(f"{first},{second}").start()
    assert not (first / FILE_NAME).exists()
    assert InvalidLogDirectory in STARTUP_ERRORS
    # The remedy that the message names.
    (second / "meta.properties").unlink()
    await broker_on(f"{first},{second}").start()
    assert (first / FILE_NAME).exists()


async def test_log_directories_are_released_after_all_work_on_their_files(tmp_path, monkeypatch):
    ended = []

    def record_calls(owner, method):
        original = getattr(owner, method)

        def close_and_record(self):
            ended.append(owner)
            original(self)

        monkeypatch.setattr(owner, method, close_and_record)

    record_calls(WorkerProcess, "close")
    record_calls(DiskExecutor, "close")
    record_calls(LogDirectories, "release")
    broker = broker_on(tmp_path / "logs")
    await broker.start()
    await broker.stop()
    assert ended == [WorkerProcess, WorkerProcess, DiskExecutor, LogDirectories]


async def test_stopped_broker_sends_no_request_to_the_controller(tmp_path):
    broker = broker_on(tmp_path / "logs")
    await broker.start()
    controller = broker._assembly.controller_client
    await broker.stop()
    with pytest.raises(RequestTimedOut, match="this broker is shutting down"):
        await controller.controlled_shutdown()


class ExpiringStore(MemoryStore):
    """A store whose session expires at the ``at``-th operation."""

    def __init__(self, at):
        super().__init__(DataTree())
        self.operations_left = at

    async def _sent(self):
        self.operations_left -= 1
        if self.operations_left == 0:
            self.expire()
        return await super()._sent()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
async def test_session_that_expires_during_startup_is_replaced(tmp_path, monkeypatch, step):
    for at in range(1, 1000, step):
        store = ExpiringStore(at)
        monkeypatch.setattr(server, "create_store", lambda *_, store=store, **__: store)
        monkeypatch.setattr(server, "check_store_exists", lambda *_: None)
        broker = broker_on(tmp_path / f"logs-{at}")
        await broker.start()
        await broker.stop()
        if store.operations_left > 0:
            break
    assert 10 < at < 900, at
