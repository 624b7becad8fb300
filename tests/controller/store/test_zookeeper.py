"""The connections and sessions of a store on a real ZooKeeper."""

import asyncio
import os
import threading

import pytest

from odradek.config.definition import SettingError
from odradek.controller.store.base import (
    CannotOpenSession,
    Create,
    GetData,
    MultiFailed,
    NodeExists,
    NotPermitted,
    SessionExpired,
    SessionState,
    SetData,
    WatchEvent,
    WatchEventType,
)
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from tests.support.free_ports import free_port
from tests.support.loops import on_a_thread
from tests.support.stores import Seen
from tests.support.zookeeper import States, expired, on_a_wire, opened, settings_for

CONNECTED, SUSPENDED, EXPIRED = SessionState


async def test_session_survives_a_lost_connection(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    session_id = store.session_id
    await store.create("/a", is_ephemeral=True)
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await wire.mend()
    await states.wait_for(CONNECTED)
    assert (await store.exists("/a")).ephemeral_owner == session_id == store.session_id
    assert states.seen == [SUSPENDED, CONNECTED]


async def test_requests_while_disconnected_are_done_later_in_order(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    await wire.cut()
    await states.wait_for(SUSPENDED)
    pending = asyncio.gather(
        store.run([Create("/a", b"0"), *(SetData("/a", b"%d" % count) for count in range(50))]),
        store.get("/a"),
        store.multi([SetData("/a", b"last"), Create("/b")]),
        store.get("/a"),
    )
    await wire.mend()
    results, between, _, node = await pending
    assert [outcome.version for outcome in results[1:]] == list(range(1, 51))
    assert (between.value, node.value) == (b"49", b"last")


async def test_requests_in_flight_on_a_lost_connection_are_sent_again(own_zookeeper):
    store, wire, states = await on_a_wire(own_zookeeper, "", max_in_flight_requests=7)
    await store.create("/a")
    own_zookeeper.suspend()
    before = wire.requests
    pending = asyncio.gather(
        store.run([Create(f"/a/{count}") for count in range(100)]),
        store.get_children("/a"),
    )
    await wire.wait_for_requests(before + 7)
    await wire.cut()
    await states.wait_for(SUSPENDED)
    own_zookeeper.resume()
    await wire.mend()
    outcomes, names = await pending
    assert sorted(map(int, names)) == list(range(100))
    # The server may have applied the requests whose responses were lost.
    assert not [outcome for outcome in outcomes[7:] if isinstance(outcome, NodeExists)]


async def test_no_more_requests_are_in_flight_than_allowed(own_zookeeper):
    store, wire, _ = await on_a_wire(own_zookeeper, "", max_in_flight_requests=3)
    await store.create("/a")
    before = wire.requests
    own_zookeeper.suspend()
    pending = asyncio.gather(store.run([GetData("/a")] * 50))
    await wire.wait_for_requests(before + 3)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert wire.requests == before + 3
    own_zookeeper.resume()
    (nodes,) = await pending
    assert len({node.stat for node in nodes}) == 1
    assert wire.requests == before + 50


async def test_operations_wait_while_the_server_restarts(own_zookeeper):
    store = await opened(settings_for(own_zookeeper, "/some/where"))
    states = States(store)
    await store.create("/a", b"kept", is_ephemeral=True)
    seen = Seen()
    await store.get("/a", seen)
    own_zookeeper.kill()
    await states.wait_for(SUSPENDED)
    pending = asyncio.gather(store.set("/a", b"new"), store.create("/b"))
    # Start it on this thread: the kernel kills the server with the thread that started it.
    own_zookeeper.start()
    stat, _ = await pending
    assert (stat.version, stat.ephemeral_owner) == (1, store.session_id)
    assert states.seen == [SUSPENDED, CONNECTED]
    assert seen.events == [WatchEvent(WatchEventType.DATA_CHANGED, "/a")]


async def test_operations_wait_for_a_hanging_server(own_zookeeper):
    store = await opened(settings_for(own_zookeeper))
    own_zookeeper.suspend()
    pending = asyncio.gather(store.create("/a", b"1"))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not pending.done()
    own_zookeeper.resume()
    ((path, _),) = await pending
    assert path == "/a"


async def test_only_zookeeper_expires_a_session(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot, session_timeout_ms=400)
    other = await opened(settings_for(zookeeper, chroot))
    is_gone = asyncio.Event()
    await store.create("/a", is_ephemeral=True)
    await other.exists("/a", lambda event: is_gone.set())
    await wire.cut()
    pending = asyncio.gather(store.get("/a"), return_exceptions=True)
    await is_gone.wait()
    assert states.seen == [SUSPENDED]
    assert not pending.done()
    await wire.mend()
    await states.wait_for(EXPIRED)
    assert states.seen == [SUSPENDED, EXPIRED]
    (error,) = await pending
    assert isinstance(error, SessionExpired)


async def test_expired_session_is_reported_once_and_a_new_one_can_be_opened(zookeeper_stores):
    store = await zookeeper_stores.open()
    other = await zookeeper_stores.open()
    states = States(store)
    first_id = store.session_id
    seen = Seen()
    await store.create("/a", is_ephemeral=True)
    await store.create("/b")
    await store.get("/b", seen)
    await expired(store, zookeeper_stores.settings)
    for operation in (store.get("/b"), store.multi([SetData("/b", b"")]), store.run([])):
        with pytest.raises(SessionExpired):
            await operation
    assert await other.exists("/a") is None
    await store.open_session()
    assert store.session_id != first_id
    await other.set("/b", b"new")
    assert (await store.get("/b")).value == b"new"
    assert seen.events == []
    assert [state for state in states.seen if state is not SUSPENDED] == [EXPIRED, CONNECTED]


async def test_close_ends_the_session_immediately_without_a_notification(zookeeper_stores):
    store = await zookeeper_stores.open()
    other = await zookeeper_stores.open()
    states = States(store)
    await store.create("/a", is_ephemeral=True)
    await store.close()
    assert await other.exists("/a") is None
    assert states.seen == []
    with pytest.raises(SessionExpired):
        await store.get("/a")


def open_files():
    return len(os.listdir("/proc/self/fd"))


async def test_closed_session_leaves_no_threads_or_files(own_zookeeper):
    settings = settings_for(own_zookeeper, "/a")
    await on_a_thread(int)
    before = threading.active_count(), open_files()
    store = ZooKeeperStore(settings, run_in_thread=on_a_thread)
    await store.open_session()
    assert threading.active_count() == before[0] + 1
    await expired(store, settings)
    await store.open_session()
    own_zookeeper.kill()
    await store.close()
    assert (threading.active_count(), open_files()) == before


async def test_store_can_be_closed_while_the_server_hangs(own_zookeeper, monkeypatch):
    monkeypatch.setattr("odradek.controller.store.zookeeper_client.CLOSE_TIMEOUT_S", 0.1)
    store = await opened(settings_for(own_zookeeper, session_timeout_ms=60_000))
    own_zookeeper.suspend()
    await store.close()
    own_zookeeper.resume()


async def test_chroot_is_created_with_its_parents(zookeeper, chroot):
    for _ in range(2):
        store = await opened(settings_for(zookeeper, f"{chroot}/some/where/"))
        assert await store.get_children("/") == []
    top = await opened(settings_for(zookeeper))
    assert await top.get_children(f"{chroot}/some") == ["where"]


async def test_paths_are_relative_to_the_chroot(zookeeper_stores):
    store = await zookeeper_stores.open()
    seen = Seen()
    await store.exists("/a", seen)
    assert (await store.create("/a")).path == "/a"
    assert seen.events == [WatchEvent(WatchEventType.CREATED, "/a")]
    root = await store.exists("/")
    assert root.children_count == 1


async def test_error_names_an_unreachable_address():
    address = f"127.0.0.1:{free_port()}/kafka"
    settings = ZooKeeperSettings(connect=address, connection_timeout_ms=200)
    store = ZooKeeperStore(settings, run_in_thread=on_a_thread)
    threads = threading.active_count()
    with pytest.raises(CannotOpenSession, match=f"ZooKeeper at {address}: no response in 200 ms"):
        await store.open_session()
    with pytest.raises(SessionExpired):
        await store.get("/")
    assert threading.active_count() <= threads + 1  # The executor has one thread.


@pytest.mark.parametrize("connect", [None, "", "/kafka", "localhost:2181//kafka"])
def test_invalid_address_is_rejected(connect):
    with pytest.raises(SettingError, match=r"zookeeper\.connect"):
        ZooKeeperStore(ZooKeeperSettings(connect=connect), run_in_thread=on_a_thread)


async def test_only_the_request_that_exceeds_the_server_limit_is_rejected(zookeeper_stores):
    store = await zookeeper_stores.open()
    states = States(store)
    value = bytes(1 << 20)
    rejected, done = await store.run([Create("/a", value), Create("/b")])
    assert (type(rejected), done.path) == (NotPermitted, "/b")
    with pytest.raises(MultiFailed):
        await store.multi([SetData("/b", b""), SetData("/b", value)])
    await store.set("/b", bytes((1 << 20) - 2048))
    assert states.seen == []


async def test_create_in_a_multi_returns_the_stat_without_times(zookeeper_stores):
    store = await zookeeper_stores.open()
    (created,) = await store.multi([Create("/a", is_ephemeral=True)])
    stat = await store.exists("/a")
    assert stat.created_ms > 0
    assert created.stat == stat._replace(created_ms=0, modified_ms=0)


async def test_responses_to_cancelled_requests_are_ignored(zookeeper_stores):
    store = await zookeeper_stores.open()
    pending = asyncio.gather(store.run([Create("/a")]), store.multi([Create("/b")]))
    await asyncio.sleep(0)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    assert sorted(await store.get_children("/")) == ["a", "b"]
