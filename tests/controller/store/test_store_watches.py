"""When every metadata store calls a watch: once, for what was read, before it can be read."""

import asyncio

import pytest

from odradek.controller.store.base import (
    Change,
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    MultiFailed,
    Set,
    StoreError,
    WatchEvent,
)
from tests.support.stores import Seen

CREATED, DELETED = WatchEvent(Change.CREATED, "/a"), WatchEvent(Change.DELETED, "/a")
VALUE, CHILDREN = WatchEvent(Change.VALUE, "/a"), WatchEvent(Change.CHILDREN, "/a")

STEPS = [
    Create("/a"),
    Set("/a", b"1"),
    Create("/a/b"),
    Set("/a/b", b"1"),
    Create("/a/b/c"),
    Delete("/a/b/c"),
    Delete("/a/b"),
    Delete("/a"),
]


async def told(stores, reads, first_step):
    """What a watch hears that is left by these reads just before that step."""
    store, seen = await stores.open(), Seen()
    await store.run(STEPS[:first_step])
    await store.run([read("/a", seen) for read in reads])
    for step in STEPS[first_step:]:
        await store.run([step])
    await store.exists("/")
    return seen.events


@pytest.mark.parametrize("first_step", range(len(STEPS)))
@pytest.mark.parametrize(
    ("reads", "hears"),
    [
        ([Get], [None, VALUE] + [DELETED] * 6),
        ([Exists], [CREATED, VALUE] + [DELETED] * 6),
        ([Children], [None, CHILDREN, CHILDREN, CHILDREN, CHILDREN, CHILDREN, CHILDREN, DELETED]),
        ([Get, Get], [None, VALUE] + [DELETED] * 6),
        ([Get, Exists], [CREATED, VALUE] + [DELETED] * 6),
    ],
    ids=["get", "exists", "children", "get twice", "get and exists"],
)
async def test_a_watch_is_called_once_for_the_next_change_of_what_was_read(
    stores, reads, hears, first_step
):
    expected = hears[first_step]
    assert await told(stores, reads, first_step) == ([expected] if expected else [])


async def test_a_watch_at_value_and_children_hears_of_each(stores):
    assert await told(stores, [Get, Children], 1) == [VALUE, CHILDREN]


async def test_a_watch_at_value_and_children_hears_of_the_end_once(stores):
    assert await told(stores, [Get, Exists, Children], len(STEPS) - 1) == [DELETED]


async def test_each_of_several_watches_is_called(stores):
    store, watches = await stores.open(), [Seen() for _ in range(3)]
    await store.create("/a")
    await store.run([Get("/a", watches[0]), Exists("/a", watches[1]), Get("/a", watches[2])])
    await store.set("/a", b"")
    await store.exists("/a")
    assert [seen.events for seen in watches] == [[VALUE]] * 3


async def test_a_watch_left_again_is_called_again(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    for _ in range(3):
        await store.get("/a", seen)
        await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE] * 3


async def test_a_watch_left_again_before_the_first_call_came_is_called_again(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    step = [Get("/a", seen), Exists("/a", seen), Set("/a", b""), Get("/a", seen), Get("/b", seen)]
    await store.run(step * 3)
    await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE] * 4


async def test_a_write_that_fails_calls_nobody(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await store.run([Get("/a", seen), Children("/a", seen), Exists("/b", seen)])
    await store.run([Set("/a", b"", version=7), Delete("/a", version=7), Create("/a/b/c")])
    with pytest.raises(MultiFailed):
        await store.multi([Set("/a", b""), Create("/a/b"), Create("/b"), Check("/a", 7)])
    await store.exists("/a")
    assert seen.events == []
    await store.set("/a", b"")
    await store.exists("/a")
    assert seen.events == [VALUE]


async def test_a_multi_calls_in_the_order_of_its_parts(stores):
    store, seen = await stores.open(), Seen()
    await store.run([Create("/a"), Create("/b")])
    reads = [Get("/a", seen), Children("/a", seen), Exists("/c", seen), Get("/b", seen)]
    await store.run(reads)
    await store.multi([Create("/a/x"), Create("/c"), Delete("/b"), Set("/a", b"")])
    await store.exists("/a")
    assert seen.events == [
        CHILDREN,
        WatchEvent(Change.CREATED, "/c"),
        WatchEvent(Change.DELETED, "/b"),
        VALUE,
    ]


async def test_a_watch_is_called_before_a_read_shows_the_change(stores):
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
        for each in (read(), read(), write()):
            group.create_task(each)
    for number in range(1, 10):
        value = b"%d" % number
        assert order.count(b"event " + value) == 1
        assert value not in order or order.index(b"event " + value) < order.index(value)


async def test_a_watch_left_after_a_write_was_asked_for_does_not_hear_of_it(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await asyncio.gather(
        store.run([Set("/a", b"1")]), store.run([Get("/a", seen)]), store.run([Exists("/a", seen)])
    )
    await store.exists("/a")
    assert seen.events == []


async def test_a_watch_hears_of_another_sessions_writes(stores):
    one, other = await stores.open(), await stores.open()
    seen = Seen()
    await one.create("/a", is_ephemeral=True)
    await other.run([Get("/a", seen)])
    await one.set("/a", b"1")
    while (await other.get("/a")).value != b"1":
        pass
    assert seen.events == [VALUE]


async def test_a_watch_hears_of_the_end_of_another_session(stores):
    one, other = await stores.open(), await stores.open()
    at_node, at_parent = Seen(), Seen()
    await one.create("/a", is_ephemeral=True)
    await other.run([Exists("/a", at_node), Children("/", at_parent)])
    await stores.expire(one)
    while await other.exists("/a"):
        pass
    assert at_node.events == [DELETED]
    assert at_parent.events == [WatchEvent(Change.CHILDREN, "/")]


async def test_a_watch_ends_with_its_session(stores):
    store, seen = await stores.open(), Seen()
    await store.create("/a")
    await store.run([Get("/a", seen), Children("/a", seen), Exists("/b", seen)])
    await stores.expire(store)
    await store.open_session()
    assert not any(
        isinstance(outcome, StoreError)
        for outcome in await store.run([Set("/a", b""), Create("/a/b"), Create("/b")])
    )
    await store.exists("/a")
    assert seen.events == []
