"""What simulations make happen to the sessions of a store without a disk."""

import asyncio

import pytest

from odradek.controller.store.base import Create, Get, SessionExpired, SessionState, StoreError
from odradek.controller.store.tree import Tree
from tests.support.memory_store import MemoryStore


async def opened(tree):
    store = MemoryStore(tree)
    await store.open_session()
    return store


@pytest.mark.parametrize("count", range(4))
async def test_a_session_may_end_between_any_two_writes_of_a_run(count):
    tree, states = Tree(), []
    store, other = await opened(tree), await opened(tree)
    store.listen(states.append)
    store.writes_left = count
    with pytest.raises(SessionExpired):
        await store.run([Create("/a"), Get("/a"), Create("/b"), Create("/c"), Create("/d")])
    assert await other.children("/") == ["a", "b", "c"][:count]
    assert states == [SessionState.EXPIRED]
    await store.open_session()
    await store.create("/e")


async def test_a_session_may_end_while_a_request_is_on_its_way():
    tree = Tree()
    store, other = await opened(tree), await opened(tree)
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(failure_of(store.create("/a")))
        await asyncio.sleep(0)
        store.expire()
    assert creating.result() is SessionExpired
    assert await other.children("/") == []


async def test_a_session_may_end_while_an_answer_is_on_its_way():
    tree = Tree()
    store, other = await opened(tree), await opened(tree)
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(failure_of(store.create("/a")))
        for _ in range(2):
            await asyncio.sleep(0)
        assert len(tree.records()) == 2
        store.expire()
    assert creating.result() is SessionExpired
    assert await other.children("/") == ["a"]


async def failure_of(operation):
    with pytest.raises(StoreError) as caught:
        await operation
    return caught.type
