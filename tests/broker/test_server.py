"""A whole broker: what its start waits for, and what it does not."""

import asyncio

import pytest

from odradek.broker import server
from odradek.broker.disk import Disk
from odradek.broker.failures import CANNOT_START
from odradek.broker.server import NotReached, Server
from odradek.broker.settings.sources import load
from odradek.broker.store import FILE_NAME
from odradek.broker.worker import Worker
from odradek.controller.store.tree import Tree
from odradek.protocol.errors import RequestTimedOut
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.meta_properties import DirectoryRefused
from tests.support.free_ports import free_port
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore


def broker_on(data_dir, *overrides):
    written = [f"log.dirs={data_dir}", "listeners=PLAINTEXT://127.0.0.1:0", *overrides]
    broker = Server(load(file=None, environment={}, overrides=written))
    at_end(broker.stop)
    return broker


async def test_a_broker_that_its_controller_cannot_reach_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "FIRST_PICTURE_S", 0.5)
    advertised = f"PLAINTEXT://127.0.0.1:{free_port()}"
    broker = broker_on(tmp_path / "logs", f"advertised.listeners={advertised}")
    with pytest.raises(NotReached, match=rf"at {advertised}, .*: see advertised\.listeners"):
        await broker.start()
    assert NotReached in CANNOT_START


async def test_logs_of_nobody_are_kept_and_told_of_and_hold_up_no_start(tmp_path, caplog):
    for name in ("ghost-0", "ghost-1"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    broker = broker_on(tmp_path / "logs")
    began = asyncio.get_running_loop().time()
    await broker.start()
    assert asyncio.get_running_loop().time() - began < server.OWN_LEADERS_S
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["No partitions of this broker, but their logs are kept: ghost-0, ghost-1"]
    assert (tmp_path / "logs" / "ghost-1" / "00000000000000000000.log").exists()


async def test_a_directory_that_is_put_before_the_others_has_no_store_of_its_own(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for directories in (f"{old}", f"{new},{old}"):
        broker = broker_on(directories)
        await broker.start()
        await broker.stop()
    assert (old / FILE_NAME).exists()
    assert not (new / FILE_NAME).exists()


async def test_a_store_that_is_gone_is_not_made_anew_unless_the_directories_are_nobodys(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    broker = broker_on(f"{first},{second}")
    await broker.start()
    await broker.stop()
    first.rename(tmp_path / "not mounted")
    with pytest.raises(DirectoryRefused, match=rf"{FILE_NAME}, .*{second} belongs to a cluster"):
        await broker_on(f"{first},{second}").start()
    assert not (first / FILE_NAME).exists()
    assert DirectoryRefused in CANNOT_START
    # The way out that it tells of.
    (second / "meta.properties").unlink()
    await broker_on(f"{first},{second}").start()
    assert (first / FILE_NAME).exists()


async def test_a_directory_is_let_go_of_when_nobody_works_on_its_files_any_more(
    tmp_path, monkeypatch
):
    ended = []

    def noting(owner, method):
        original = getattr(owner, method)

        def noted(self):
            ended.append(owner)
            original(self)

        monkeypatch.setattr(owner, method, noted)

    noting(Worker, "close")
    noting(Disk, "close")
    noting(LogDirectories, "release")
    broker = broker_on(tmp_path / "logs")
    await broker.start()
    await broker.stop()
    assert ended == [Worker, Worker, Disk, LogDirectories]


async def test_a_broker_that_has_stopped_asks_the_controller_for_nothing(tmp_path):
    broker = broker_on(tmp_path / "logs")
    await broker.start()
    controller = broker._parts.controller_client
    await broker.stop()
    with pytest.raises(RequestTimedOut, match="this broker stops"):
        await controller.shut_down()


class ExpiringStore(MemoryStore):
    """Whose session ends when it is asked for the ``at``-th time."""

    def __init__(self, at):
        super().__init__(Tree())
        self.left = at

    async def _sent(self):
        self.left -= 1
        if self.left == 0:
            self.expire()
        return await super()._sent()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
async def test_a_session_that_ends_at_any_time_of_the_start_is_followed_by_another(
    tmp_path, monkeypatch, step
):
    for at in range(1, 1000, step):
        store = ExpiringStore(at)
        monkeypatch.setattr(server, "store_for", lambda *_, store=store, **__: store)
        monkeypatch.setattr(server, "check_store_is_there", lambda *_: None)
        broker = broker_on(tmp_path / f"logs-{at}")
        await broker.start()
        await broker.stop()
        if store.left > 0:
            break
    assert 10 < at < 900, at
