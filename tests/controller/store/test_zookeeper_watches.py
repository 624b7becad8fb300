"""Watches of a store on a real ZooKeeper, when the connection is lost on which they were left."""

import asyncio

import pytest

from odradek.controller.store.base import (
    Change,
    Children,
    Create,
    Exists,
    Get,
    SessionState,
    Set,
    WatchEvent,
)
from tests.support.stores import Seen
from tests.support.zookeeper import on_a_wire, opened, settings_for

CONNECTED, SUSPENDED = SessionState.CONNECTED, SessionState.SUSPENDED

MISSED = [
    (Get("/a"), Set("/a", b"1"), Change.VALUE),
    (Get("/a"), "delete /a", Change.DELETED),
    (Get("/a"), "create /a again", Change.VALUE),
    (Exists("/a"), Set("/a", b"1"), Change.VALUE),
    (Exists("/a"), "delete /a", Change.DELETED),
    (Exists("/new"), Create("/new"), Change.CREATED),
    (Children("/a"), Create("/a/b"), Change.CHILDREN),
    (Children("/a"), "delete /a", Change.DELETED),
    (Children("/a"), "create /a again", Change.CHILDREN),
]


async def changed(store, change):
    if isinstance(change, str):
        await store.delete("/a")
        if "again" in change:
            await store.create("/a")
    else:
        await store.run([change])


@pytest.mark.parametrize(("read", "change", "expected"), MISSED, ids=str)
async def test_a_watch_hears_of_what_happened_while_the_connection_was_lost(
    zookeeper, chroot, read, change, expected
):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    heard = []
    await store.run([type(read)(read.path, heard.append)])
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await changed(other, change)
    asked = asyncio.gather(store.exists(read.path))
    asked.add_done_callback(lambda _: heard.append("the answer"))
    await wire.mend()
    await asked
    await asyncio.sleep(0)
    assert heard == [WatchEvent(expected, read.path), "the answer"]


async def test_a_watch_that_missed_nothing_stays_and_is_called_once(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.run([Create("/a"), Create("/c")])
    seen = Seen()
    reads = [Get("/a", seen), Exists("/a", seen), Exists("/new", seen), Children("/a", seen)]
    await store.run([*reads, Get("/new", seen)])
    await store.set("/c", b"something else")
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await other.set("/c", b"something else again")
    await wire.mend()
    await states.wait_for(CONNECTED)
    await store.exists("/")
    assert seen.events == []
    await other.run([Set("/a", b"1"), Create("/new"), Create("/a/b"), Set("/a", b"2")])
    await store.exists("/")
    assert seen.events == [
        WatchEvent(Change.VALUE, "/a"),
        WatchEvent(Change.CREATED, "/new"),
        WatchEvent(Change.CHILDREN, "/a"),
    ]


async def test_a_watch_for_several_reads_hears_once_of_what_it_missed(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    seen = Seen()
    await store.run([Get("/a", seen), Get("/a", seen), Exists("/a", seen), Children("/a", seen)])
    await wire.cut()
    await states.wait_for(SUSPENDED)
    await other.delete("/a")
    await wire.mend()
    await store.exists("/")
    assert seen.events == [WatchEvent(Change.DELETED, "/a")]


async def test_a_watch_left_often_is_armed_once_when_the_connection_was_lost(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.create("/a")
    seen = Seen()
    reads = [Get("/a", seen), Exists("/new", seen), Children("/a", seen)]
    for _ in range(10):
        await store.run(reads * 10)
    await wire.cut()
    await states.wait_for(SUSPENDED)
    before = wire.requests
    await wire.mend()
    await store.exists("/")
    # A connection begins with a request, and some time there may be a ping.
    assert wire.requests < before + len(reads) + 5
    await other.multi([Set("/a", b""), Create("/new"), Create("/a/b")])
    await store.exists("/")
    assert len(seen.events) == len(reads)


async def test_a_watch_that_was_called_is_not_armed_again(zookeeper, chroot):
    store, wire, states = await on_a_wire(zookeeper, chroot)
    other = await opened(settings_for(zookeeper, chroot))
    await store.run([Create(f"/{number}") for number in range(20)])
    seen = Seen()
    await store.run([Get(f"/{number}", seen) for number in range(20)])
    for is_called in (True, False):
        await wire.cut()
        await states.wait_for(SUSPENDED)
        await other.run([Set(f"/{number}", b"") for number in range(20)])
        before = wire.requests
        await wire.mend()
        await store.exists("/")
        assert (wire.requests >= before + 20) is is_called
        states.seen.clear()
    assert len(seen.events) == 20
