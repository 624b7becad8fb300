"""Tests of the loop and the stores that simulations run on."""

import asyncio

import pytest

from odradek.controller.store.base import Create, MultiFailed, NodeExists, SessionExpired, Set
from tests.support.distant_store import DistantStore, ObservedTree, Weather
from tests.support.virtual_loop import Stuck, VirtualLoop


@pytest.fixture
def loop():
    made = VirtualLoop()
    yield made
    made.close()


class Nobody:
    def written(self, session_id, mutations, fence):
        return


def two_stores(loop, seed, *, answers_lost=0):
    tree, weather = ObservedTree(Nobody()), Weather(seed)
    weather.is_calm, weather.answers_lost = False, answers_lost
    return [DistantStore(tree, weather, loop.now_ms) for _ in range(2)]


def test_time_passes_only_when_nothing_else_is_left(loop):
    woken = []

    async def sleep(hours):
        await asyncio.sleep(hours * 3600)
        woken.append((hours, loop.time()))

    async def sleep_all():
        await asyncio.gather(*map(sleep, (3, 1, 2)))

    loop.run_until_complete(sleep_all())
    assert woken == [(1, 3600), (2, 7200), (3, 10800)]
    assert loop.now_ms() == 10_800_000


def test_waiting_for_what_never_comes_is_told(loop):
    async def wait():
        await loop.create_future()

    with pytest.raises(Stuck):
        loop.run_until_complete(wait())
    loop.set_exception_handler(lambda *_: None)


def test_there_are_no_threads(loop):
    with pytest.raises(RuntimeError):
        loop.run_in_executor(None, print)
    with pytest.raises(RuntimeError):
        loop.call_soon_threadsafe(print)


@pytest.mark.parametrize("seed", range(20))
def test_a_watch_comes_before_the_answer_that_shows_the_change(loop, seed):
    async def race():
        mine, yours = two_stores(loop, seed)
        await mine.open_session()
        await yours.open_session()
        told = []
        await mine.exists("/n", told.append)
        written = loop.create_task(yours.create("/n"))
        while await mine.exists("/n") is None:
            assert not told or written.done()
        assert len(told) == 1
        await written

    loop.run_until_complete(race())


def test_what_happens_is_the_same_for_the_same_seed():
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


def test_a_session_ends_before_the_write_that_it_has_no_more_for(loop):
    async def write():
        mine, yours = two_stores(loop, 0)
        await mine.open_session()
        await yours.open_session()
        mine.writes_left = 1
        await mine.create("/done")
        with pytest.raises(SessionExpired):
            await mine.create("/undone")
        assert await yours.children("/") == ["done"]

    loop.run_until_complete(write())


def test_what_an_answer_was_lost_to_is_done_again(loop):
    async def write():
        store, _ = two_stores(loop, 0, answers_lost=1)
        await store.open_session()
        with pytest.raises(NodeExists):
            await store.create("/a")
        assert (await store.set("/a", b"")).version == 2
        with pytest.raises(MultiFailed):
            await store.multi([Set("/a", b"")] * 2 + [Create("/b")])
        assert (await store.exists("/a")).version == 4

    loop.run_until_complete(write())
