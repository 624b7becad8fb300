"""The session failures that simulations inject into the memory store."""

import asyncio

import pytest

from odradek.controller.store.base import Create, GetData, SessionExpired, SessionState, StoreError
from odradek.controller.store.data_tree import DataTree
from tests.support.memory_store import MemoryStore


async def open_store(tree):
    store = MemoryStore(tree)
    await store.open_session()
    return store


@pytest.mark.parametrize("count", range(4))
async def test_session_can_expire_between_any_two_writes_of_a_run(count):
    tree, states = DataTree(), []
    store, other = await open_store(tree), await open_store(tree)
    store.add_session_listener(states.append)
    store.writes_left = count
    with pytest.raises(SessionExpired):
        await store.run([Create("/a"), GetData("/a"), Create("/b"), Create("/c"), Create("/d")])
    assert await other.get_children("/") == ["a", "b", "c"][:count]
    assert states == [SessionState.EXPIRED]
    await store.open_session()
    await store.create("/e")


async def test_session_can_expire_before_the_request_arrives():
    tree = DataTree()
    store, other = await open_store(tree), await open_store(tree)
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(error_of(store.create("/a")))
        await asyncio.sleep(0)
        store.expire()
    assert creating.result() is SessionExpired
    assert await other.get_children("/") == []


async def test_session_can_expire_before_the_response_arrives():
    tree = DataTree()
    store, other = await open_store(tree), await open_store(tree)
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(error_of(store.create("/a")))
        for _ in range(2):
            await asyncio.sleep(0)
        assert len(tree.records()) == 2
        store.expire()
    assert creating.result() is SessionExpired
    assert await other.get_children("/") == ["a"]


async def error_of(operation):
    with pytest.raises(StoreError) as caught:
        await operation
    return caught.type
