"""Watches of a store on a real ZooKeeper, after the connection was lost on which they were set."""

import asyncio

import pytest

from odradek.controller.store.base import (
    Create,
    Exists,
    GetChildren,
    GetData,
    SessionState,
    SetData,
    WatchEvent,
    WatchEventType,
)
from tests.support.stores import Seen
from tests.support.zookeeper import on_a_wire, opened, settings_for

CONNECTED, SUSPENDED = SessionState.CONNECTED, SessionState.SUSPENDED

MISSED = [
    (GetData("/a"), SetData("/a", b"1"), WatchEventType.DATA_CHANGED),
    (GetData("/a"), "delete /a", WatchEventType.DELETED),
    (GetData("/a"), "create /a again", WatchEventType.DATA_CHANGED),
    (Exists("/a"), SetData("/a", b"1"), WatchEventType.DATA_CHANGED),
    (Exists("/a"), "delete /a", WatchEventType.DELETED),
    (Exists("/new"), Create("/new"), WatchEventType.CREATED),
    (GetChildren("/a"), Create("/a/b"), WatchEventType.CHILDREN_CHANGED),
    (GetChildren("/a"), "delete /a", WatchEventType.DELETED),
    (GetChildren("/a"), "create /a again", WatchEventType.CHILDREN_CHANGED),
]


async def apply_change(store, change):
    if isinstance(change, str):
        await store.delete("/a")
        if "again" in change:
            await store.create("/a")
    else:
        await store.run([change])


@pytest.mark.parametrize(("read", "change", "expected"), MISSED, ids=str)
async def test_watch_fires_for_a_change_while_the_connection_was_lost(
    zookeeper, chroot, read, change, expected
):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    events = []
    await store.run([type(read)(read.path, events.append)])
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await apply_change(other, change)
    pending = asyncio.gather(store.exists(read.path))
    pending.add_done_callback(lambda _: events.append("the answer"))
    await wire.mend()
    await pending
    await asyncio.sleep(0)
    assert events == [WatchEvent(expected, read.path), "the answer"]


async def test_watch_that_missed_nothing_stays_and_fires_once(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.run([Create("/a"), Create("/c")])
    seen = Seen()
    reads = [GetData("/a", seen), Exists("/a", seen), Exists("/new", seen), GetChildren("/a", seen)]
    await store.run([*reads, GetData("/new", seen)])
    await store.set("/c", b"something else")
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await other.set("/c", b"something else again")
    await wire.mend()
    await states.wait_for(CONNECTED)
    await store.exists("/")
    assert seen.events == []
    await other.run([SetData("/a", b"1"), Create("/new"), Create("/a/b"), SetData("/a", b"2")])
    await store.exists("/")
    assert seen.events == [
        WatchEvent(WatchEventType.DATA_CHANGED, "/a"),
        WatchEvent(WatchEventType.CREATED, "/new"),
        WatchEvent(WatchEventType.CHILDREN_CHANGED, "/a"),
    ]


async def test_watch_of_several_reads_fires_once_for_a_missed_change(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    seen = Seen()
    await store.run(
        [GetData("/a", seen), GetData("/a", seen), Exists("/a", seen), GetChildren("/a", seen)]
    )
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await other.delete("/a")
    await wire.mend()
    await store.exists("/")
    assert seen.events == [WatchEvent(WatchEventType.DELETED, "/a")]


async def test_watch_set_many_times_is_restored_once_after_a_reconnect(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    seen = Seen()
    reads = [GetData("/a", seen), Exists("/new", seen), GetChildren("/a", seen)]
    for _ in range(10):
        await store.run(reads * 10)
    await wire.cut()
    await states.wait_for(SUSPENDED)
    before = wire.requests
    await wire.mend()
    await store.exists("/")
    # The new connection begins with a request, and there may be pings.
    assert wire.requests < before + len(reads) + 5
    await other.multi([SetData("/a", b""), Create("/new"), Create("/a/b")])
    await store.exists("/")
    assert len(seen.events) == len(reads)


async def test_watch_that_fired_is_not_restored(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.run([Create(f"/{number}") for number in range(20)])
    seen = Seen()
    await store.run([GetData(f"/{number}", seen) for number in range(20)])
    for is_called in (True, False):
        await wire.cut()
        await states.wait_for(SUSPENDED)
        await other.run([SetData(f"/{number}", b"") for number in range(20)])
        before = wire.requests
        await wire.mend()
        await store.exists("/")
        assert (wire.requests >= before + 20) is is_called
        states.seen.clear()
    assert len(seen.events) == 20
