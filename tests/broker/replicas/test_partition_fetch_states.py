"""Building a fetch request visits only changed partitions, with the result of a full scan."""

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker import time_slice
from odradek.broker.replicas.partition_fetch_state import INITIAL_BACKOFF_S
from odradek.broker.replicas.partition_fetch_states import FULL_SCAN_INTERVAL_S
from odradek.broker.replicas.replica_fetcher import MIN_DELAY_S
from odradek.protocol.error_codes import ErrorCode
from tests.support.followed_many import BACKOFF_S, REFUSED, TOPIC, Scene
from tests.support.loops import finish_in_virtual_time


def in_virtual_time(story):
    """Turn an ``async def story()`` into a test."""
    return lambda: finish_in_virtual_time(story())


@in_virtual_time
async def test_only_the_partition_with_records_is_visited():
    scene = Scene()
    for number in range(1000):
        scene.add_partition(number)
    assert await scene.asked() == [*range(1000)]
    for records in [1, 0, 2]:
        assert await scene.answered({7: records}) == ([7] if records else [])
        assert set(scene.looked_at) == {7}
    assert await scene.answered({7: 1, 8: 1}) == [7, 8]
    assert set(scene.looked_at) == {7, 8}


@in_virtual_time
async def test_added_partitions_and_those_whose_backoff_ended_are_visited():
    scene = Scene()
    for number in range(10):
        scene.add_partition(number)
    await scene.asked()
    await scene.answered({1: 1, 2: REFUSED})
    scene.add_partition(3)
    scene.remove_partition(4)
    await scene.asked(after_s=INITIAL_BACKOFF_S)
    assert await scene.answered({1: 1}) == [3, 1, 2]
    assert set(scene.looked_at) == {1, 2, 3}
    assert scene.meant.keys() == {*range(10)} - {4}


@in_virtual_time
async def test_all_partitions_are_scanned_after_an_empty_response():
    scene = Scene()
    moved, *_ = [scene.add_partition(number) for number in range(10)]
    await scene.asked()
    moved.log.log_start_offset = 5
    assert await scene.answered({1: 1}) == [1]
    assert await scene.answered() == [0]
    assert scene.meant[0].log_start_offset == 5


@in_virtual_time
async def test_all_partitions_are_scanned_periodically_when_no_response_is_empty():
    scene = Scene()
    moved, *_ = [scene.add_partition(number) for number in range(10)]
    await scene.asked()
    moved.log.log_start_offset = 5
    assert await scene.asked(after_s=FULL_SCAN_INTERVAL_S - 0.01) == [*range(10)]
    assert await scene.answered({1: 1}) == [1]
    await scene.asked(after_s=0.01)
    assert await scene.answered({1: 1}) == [1, 0]


@in_virtual_time
async def test_throttled_partition_is_not_requested_when_other_partitions_get_records():
    scene = Scene()
    for number in range(3):
        scene.add_partition(number)
    await scene.asked()
    await scene.answered({2: 100})  # has all
    scene.throttle.configure(TOPIC, ("*",), broker_id=2)
    scene.throttle.rate.limit = 1
    await scene.answered({1: 5})
    assert scene.meant.keys() == {2}
    await asyncio.sleep(2)
    await scene.answered()
    assert scene.meant.keys() == {0, 1, 2}


@in_virtual_time
async def test_error_while_visiting_one_partition_does_not_skip_others():
    scene = Scene()
    first, *_ = [scene.add_partition(number) for number in range(3)]

    def fail_once(number):
        first.on_look = scene.looked_at.append
        raise AssertionError("a mistake")

    first.on_look = fail_once
    assert await scene.asked() is None
    assert await scene.asked(after_s=BACKOFF_S) == [0, 1, 2]


@pytest.fixture
def short_turns(monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)


def test_partition_changed_during_the_scan_is_requested_as_it_is_afterwards(short_turns):
    async def story():
        scene = Scene()
        first, _, third = (scene.add_partition(number) for number in range(3))

        def between_slices():
            scene.remove_partition(1)
            first.is_truncating = True
            scene.add_partition(0)

        third.on_look = lambda _: scene.loop.call_soon(between_slices)
        assert await scene.asked() == [2]
        first.is_truncating = False
        await scene.asked(after_s=MIN_DELAY_S)
        third.on_look = scene.looked_at.append
        assert await scene.answered({2: 1}) == [2, 0]

    finish_in_virtual_time(story())


class CheckedScene(Scene):
    """A scene that checks each request against an independent model."""

    def __init__(self):
        super().__init__(on_asked=self._check_all)
        self.mistakes = []
        self.followed = set()
        self.backoff_until_s, self.backoff_s = defaultdict(float), defaultdict(float)
        never = -FULL_SCAN_INTERVAL_S
        self.truncation_ended_s = defaultdict(lambda: never)
        self.changed_s = defaultdict(lambda: never)

    def _check_all(self):
        self.mistakes += [
            (number, partition.leader_epoch, partition.log, self.meant.get(number))
            for number, partition in self.partitions.items()
            if not self._is_right(number, partition, self.loop.time())
        ]

    def _is_right(self, number, partition, now_s):
        requested = self.meant.get(number)
        is_backing_off = self.backoff_until_s[number] > now_s
        if partition.is_truncating or is_backing_off or number not in self.followed:
            return requested is None
        if requested is None:
            return now_s <= self.truncation_ended_s[number] + MIN_DELAY_S
        current = (partition.log.log_end_offset, partition.log.log_start_offset)
        is_recent = now_s < self.changed_s[number] + FULL_SCAN_INTERVAL_S
        is_same = (requested.fetch_offset, requested.log_start_offset) == current
        return requested.current_leader_epoch == partition.leader_epoch and (is_same or is_recent)

    # Events

    def add(self, number):
        self.followed.add(number)
        self.backoff_until_s[number] = self.backoff_s[number] = 0.0
        return self.add_partition(number)

    def add_while_truncating(self, number):
        self.add(number).is_truncating = True

    def remove(self, number):
        self.followed.discard(number)
        self.remove_partition(number)

    def finish_truncation(self, number):
        if number in self.partitions and self.partitions[number].is_truncating:
            self.partitions[number].is_truncating = False
            self.truncation_ended_s[number] = self.loop.time()

    def advance_log_start(self, number):
        if number in self.partitions:
            self.partitions[number].log.log_start_offset += 1
            self.changed_s[number] = self.loop.time()

    def reopen_shorter(self, number):
        if number in self.partitions and self.partitions[number].log.log_end_offset:
            self.partitions[number].log.log_end_offset -= 1
            self.changed_s[number] = self.loop.time()

    # Responses of the leader

    async def respond(self, partitions):
        for number, outcome in partitions.items():
            if number in self.meant and self._accepts(number):
                self._record(number, outcome)
        await self.answered(partitions)

    def _accepts(self, number):
        requested, partition = self.meant[number], self.partitions[number]
        return (
            number in self.followed
            and requested.current_leader_epoch == partition.leader_epoch
            and requested.fetch_offset == partition.log.log_end_offset
        )

    def _record(self, number, outcome):
        if outcome == REFUSED:
            backoff_s = min(BACKOFF_S, max(INITIAL_BACKOFF_S, 2 * self.backoff_s[number]))
            self.backoff_until_s[number] = self.loop.time() + backoff_s
            self.backoff_s[number] = backoff_s
        else:
            self.backoff_s[number] = 0.0


NUMBERS = st.integers(0, 4)
EVENTS = st.sampled_from(
    [
        CheckedScene.add,
        CheckedScene.add_while_truncating,
        CheckedScene.remove,
        CheckedScene.finish_truncation,
        CheckedScene.advance_log_start,
        CheckedScene.reopen_shorter,
    ]
)
PARTITION_RESULTS = st.dictionaries(NUMBERS, st.integers(0, 2) | st.just(REFUSED))
FAILURES = st.sampled_from([ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ConnectionResetError("cut")])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(EVENTS, NUMBERS), max_size=3),
        st.sampled_from([0.0, 0.005, MIN_DELAY_S, INITIAL_BACKOFF_S, 0.3, FULL_SCAN_INTERVAL_S]),
        PARTITION_RESULTS | PARTITION_RESULTS | PARTITION_RESULTS | FAILURES,
    ),
    max_size=30,
)


@given(STEPS)
def test_request_equals_that_of_a_full_scan(steps):
    async def story():
        scene = CheckedScene()
        for number in range(3):
            scene.add(number)
        await scene.asked()
        for events, passed_s, response in steps:
            for event, number in events:
                event(scene, number)
            await asyncio.sleep(passed_s)
            if not scene.is_asked:
                continue
            if isinstance(response, dict):
                await scene.respond(response)
            else:
                scene.fails(response)
                await scene.asked()
        assert not scene.mistakes
        assert not scene.gaps

    finish_in_virtual_time(story())
