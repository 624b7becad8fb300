"""Watches of every metadata store fire once, and before a read shows the change."""

import asyncio

import pytest

from odradek.controller.store.base import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiFailed,
    SetData,
    StoreError,
    WatchEvent,
    WatchEventType,
)
from tests.support.stores import Seen

CREATED, DELETED = (
    WatchEvent(WatchEventType.CREATED, "/a"),
    WatchEvent(WatchEventType.DELETED, "/a"),
)
VALUE, CHILDREN = (
    WatchEvent(WatchEventType.DATA_CHANGED, "/a"),
    WatchEvent(WatchEventType.CHILDREN_CHANGED, "/a"),
)

STEPS = [
    Create("/a"),
    SetData("/a", b"1"),
    Create("/a/b"),
    SetData("/a/b", b"1"),
    Create("/a/b/c"),
    Delete("/a/b/c"),
    Delete("/a/b"),
    Delete("/a"),
]


async def watch_events(stores, reads, first_step):
    """Return the events of a watch that these reads set just before that step."""
    store, seen = await stores.open(), Seen()
    await store.run(STEPS[:first_step])
    await store.run([read("/a", seen) for read in reads])
    for step in STEPS[first_step:]:
        await store.run([step])
    await store.exists("/")
    return seen.events


@pytest.mark.parametrize("first_step", range(len(STEPS)))
@pytest.mark.parametrize(
    ("reads", "expected_by_step"),
    [
        ([GetData], [None, VALUE] + [DELETED] * 6),
        ([Exists], [CREATED, VALUE] + [DELETED] * 6),
        (
            [GetChildren],
            [None, CHILDREN, CHILDREN, CHILDREN, CHILDREN, CHILDREN, CHILDREN, DELETED],
        ),
        ([GetData, GetData], [None, VALUE] + [DELETED] * 6),
        ([GetData, Exists], [CREATED, VALUE] + [DELETED] * 6),
    ],
    ids=["get", "exists", "children", "get twice", "get and exists"],
)
async def test_watch_fires_once_for_the_next_change_of_the_node_that_was_read(
    stores, reads, expected_by_step, first_step
):
    expected = expected_by_step[first_step]
    assert await watch_events(stores, reads, first_step) == ([expected] if expected else [])


async def test_watch_of_data_and_children_fires_for_both(stores):
    assert await watch_events(stores, [GetData, GetChildren], 1) == [VALUE, CHILDREN]


async def test_watch_of_data_and_children_fires_once_for_a_deletion(stores):
    assert await watch_events(stores, [GetData, Exists, GetChildren], len(STEPS) - 1) == [DELETED]


async def test_every_watch_of_a_node_fires(stores):
    store, watches = await stores.open(), [Seen() for _ in range(3)]
    await store.create("/a")
    await store.run(
        [GetData("/a", watches[0]), Exists("/a", watches[1]), GetData("/a", watches[2])]
    )
    await store.set("/a", b"")
    await store.exists("/a")
    assert [seen.events for seen in watches] == [[VALUE]] * 3


async def test_watch_that_is_set_again_fires_again(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    for _ in range(3):
        await store.get("/a", seen)
        await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE] * 3


async def test_watch_that_is_set_again_before_its_first_event_fires_again(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    step = [
        GetData("/a", seen),
        Exists("/a", seen),
        SetData("/a", b""),
        GetData("/a", seen),
        GetData("/b", seen),
    ]
    await store.run(step * 3)
    await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE] * 4


async def test_failed_write_fires_no_watch(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await store.run([GetData("/a", seen), GetChildren("/a", seen), Exists("/b", seen)])
    await store.run([SetData("/a", b"", version=7), Delete("/a", version=7), Create("/a/b/c")])
    with pytest.raises(MultiFailed):
        await store.multi([SetData("/a", b""), Create("/a/b"), Create("/b"), Check("/a", 7)])
    await store.exists("/a")
    assert seen.events == []
    await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE]


async def test_multi_fires_watches_in_the_order_of_its_operations(stores):
    store, seen = await stores.open(), Seen()
    await store.run([Create("/a"), Create("/b")])
    reads = [GetData("/a", seen), GetChildren("/a", seen), Exists("/c", seen), GetData("/b", seen)]
    await store.run(reads)
    await store.multi([Create("/a/x"), Create("/c"), Delete("/b"), SetData("/a", b"")])
    await store.exists("/a")
    assert seen.events == [
        CHILDREN,
        WatchEvent(WatchEventType.CREATED, "/c"),
        WatchEvent(WatchEventType.DELETED, "/b"),
        VALUE,
    ]


async def test_watch_fires_before_a_read_shows_the_change(stores):
    store, order = await stores.open(), []
    await store.create("/a", b"0")

    async def read():
        while True:
            node = await store.get("/a")
            order.append(node.value)
            if node.value == b"9":
                return

    async def write():
        for number in range(1, 10):
            value = b"%d" % number
            await store.get("/a", lambda _, value=value: order.append(b"event " + value))
            await store.set("/a", value)

    async with asyncio.TaskGroup() as group:
        for task in (read(), read(), write()):
            group.create_task(task)
    for number in range(1, 10):
        value = b"%d" % number
        assert order.count(b"event " + value) == 1
        assert value not in order or order.index(b"event " + value) < order.index(value)


async def test_watch_set_after_a_write_request_does_not_fire_for_it(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await asyncio.gather(
        store.run([SetData("/a", b"1")]),
        store.run([GetData("/a", seen)]),
        store.run([Exists("/a", seen)]),
    )
    await store.exists("/a")
    assert seen.events == []


async def test_watch_fires_for_writes_of_another_session(stores):
    one, other = await stores.open(), await stores.open()
    seen = Seen()
    await one.create("/a", is_ephemeral=True)
    await other.run([GetData("/a", seen)])
    await one.set("/a", b"1")
    while (await other.get("/a")).value != b"1":
        pass
    assert seen.events == [VALUE]


async def test_watch_fires_when_another_session_expires(stores):
    one, other = await stores.open(), await stores.open()
    at_node, at_parent = Seen(), Seen()
    await one.create("/a", is_ephemeral=True)
    await other.run([Exists("/a", at_node), GetChildren("/", at_parent)])
    await stores.expire(one)
    while await other.exists("/a"):
        pass
    assert at_node.events == [DELETED]
    assert at_parent.events == [WatchEvent(WatchEventType.CHILDREN_CHANGED, "/")]


async def test_watch_ends_with_its_session(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await store.run([GetData("/a", seen), GetChildren("/a", seen), Exists("/b", seen)])
    await stores.expire(store)
    await store.open_session()
    assert not any(
        isinstance(outcome, StoreError)
        for outcome in await store.run([SetData("/a", b""), Create("/a/b"), Create("/b")])
    )
    await store.exists("/a")
    assert seen.events == []
