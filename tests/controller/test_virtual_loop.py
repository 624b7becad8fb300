"""Tests of the event loop and the stores of simulations."""

import asyncio

import pytest

from odradek.controller.store.base import Create, MultiFailed, NodeExists, SessionExpired, SetData
from tests.support.distant_store import DistantStore, ObservedTree, Weather
from tests.support.virtual_loop import Stuck, VirtualLoop


@pytest.fixture
def loop():
    virtual_loop = VirtualLoop()
    yield virtual_loop
    virtual_loop.close()


class NullObserver:
    def written(self, session_id, mutations, fence):
        return


def two_stores(loop, seed, *, answers_lost=0):
    tree, weather = ObservedTree(NullObserver()), Weather(seed)
    weather.is_calm, weather.answers_lost = False, answers_lost
    return [DistantStore(tree, weather, loop.now_ms) for _ in range(2)]


def test_time_advances_only_when_no_task_is_ready(loop):
    woken = []

    async def sleep(hours):
        await asyncio.sleep(hours * 3600)
        woken.append((hours, loop.time()))

    async def sleep_all():
        await asyncio.gather(*map(sleep, (3, 1, 2)))

    loop.run_until_complete(sleep_all())
    assert woken == [(1, 3600), (2, 7200), (3, 10800)]
    assert loop.now_ms() == 10_800_000


def test_waiting_for_a_future_that_never_completes_raises(loop):
    async def wait():
        await loop.create_future()

    with pytest.raises(Stuck):
        loop.run_until_complete(wait())
    loop.set_exception_handler(lambda *_: None)


def test_threads_are_not_supported(loop):
    with pytest.raises(RuntimeError):
        loop.run_in_executor(None, print)
    with pytest.raises(RuntimeError):
        loop.call_soon_threadsafe(print)


@pytest.mark.parametrize("seed", range(20))
def test_watch_event_arrives_before_the_response_with_the_change(loop, seed):
    async def race():
        mine, yours = two_stores(loop, seed)
        await mine.open_session()
        await yours.open_session()
        events = []
        await mine.exists("/n", events.append)
        creation = loop.create_task(yours.create("/n"))
        while await mine.exists("/n") is None:
            assert not events or creation.done()
        assert len(events) == 1
        await creation

    loop.run_until_complete(race())


def test_same_seed_gives_the_same_timing():
    def times(seed):
        loop = VirtualLoop()

        async def write():
            store, _ = two_stores(loop, seed)
            await store.open_session()
            for number in range(20):
                await store.create(f"/{number}")
            return loop.time()

        try:
            return loop.run_until_complete(write())
        finally:
            loop.close()

    assert times(1) == times(1) != times(2)


def test_session_expires_before_the_write_after_its_last(loop):
    async def write():
        mine, yours = two_stores(loop, 0)
        await mine.open_session()
        await yours.open_session()
        mine.writes_left = 1
        await mine.create("/done")
        with pytest.raises(SessionExpired):
            await mine.create("/undone")
        assert await yours.get_children("/") == ["done"]

    loop.run_until_complete(write())


def test_write_whose_response_was_lost_is_repeated(loop):
    async def write():
        store, _ = two_stores(loop, 0, answers_lost=1)
        await store.open_session()
        with pytest.raises(NodeExists):
            await store.create("/a")
        assert (await store.set("/a", b"")).version == 2
        with pytest.raises(MultiFailed):
            await store.multi([SetData("/a", b"")] * 2 + [Create("/b")])
        assert (await store.exists("/a")).version == 4

    loop.run_until_complete(write())
