"""A fetch costs what has changed, and asks for the same as if all had been looked at."""

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker import turns
from odradek.broker.replicas.fetcher import SHORTEST_REST_S
from odradek.broker.replicas.followed import FIRST_REST_S
from odradek.broker.replicas.following import LOOK_AT_ALL_S
from odradek.protocol.error_codes import ErrorCode
from tests.support.followed_many import BACKOFF_S, REFUSED, TOPIC, Scene
from tests.support.loops import finish_in_virtual_time


def in_virtual_time(story):
    """A test of an ``async def story()``."""
    return lambda: finish_in_virtual_time(story())


@in_virtual_time
async def test_of_a_thousand_partitions_the_one_with_an_answer_is_looked_at():
    scene = Scene()
    for number in range(1000):
        scene.follow(number)
    assert await scene.asked() == [*range(1000)]
    for records in [1, 0, 2]:
        assert await scene.answered({7: records}) == ([7] if records else [])
        assert set(scene.looked_at) == {7}
    assert await scene.answered({7: 1, 8: 1}) == [7, 8]
    assert set(scene.looked_at) == {7, 8}


@in_virtual_time
async def test_so_are_those_that_are_followed_anew_or_have_rested():
    scene = Scene()
    for number in range(10):
        scene.follow(number)
    await scene.asked()
    await scene.answered({1: 1, 2: REFUSED})
    scene.follow(3)
    scene.forget(4)
    await scene.asked(after_s=FIRST_REST_S)
    assert await scene.answered({1: 1}) == [3, 1, 2]
    assert set(scene.looked_at) == {1, 2, 3}
    assert scene.meant.keys() == {*range(10)} - {4}


@in_virtual_time
async def test_when_the_leader_has_nothing_to_tell_all_are_looked_at():
    scene = Scene()
    moved, *_ = [scene.follow(number) for number in range(10)]
    await scene.asked()
    moved.log.start_offset = 5
    assert await scene.answered({1: 1}) == [1]
    assert await scene.answered() == [0]
    assert scene.meant[0].log_start_offset == 5


@in_virtual_time
async def test_and_now_and_then_if_it_always_has_something():
    scene = Scene()
    moved, *_ = [scene.follow(number) for number in range(10)]
    await scene.asked()
    moved.log.start_offset = 5
    assert await scene.asked(after_s=LOOK_AT_ALL_S - 0.01) == [*range(10)]
    assert await scene.answered({1: 1}) == [1]
    await scene.asked(after_s=0.01)
    assert await scene.answered({1: 1}) == [1, 0]


@in_virtual_time
async def test_what_a_throttle_holds_up_is_not_asked_for_though_others_had_the_answer():
    scene = Scene()
    for number in range(3):
        scene.follow(number)
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
async def test_a_mistake_while_one_is_looked_at_does_not_leave_out_others():
    scene = Scene()
    first, *_ = [scene.follow(number) for number in range(3)]

    def fail_once(number):
        first.on_look = scene.looked_at.append
        raise AssertionError("a mistake")

    first.on_look = fail_once
    assert await scene.asked() is None
    assert await scene.asked(after_s=BACKOFF_S) == [0, 1, 2]


@pytest.fixture
def short_turns(monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)


def test_what_changes_while_others_are_looked_at_is_asked_for_as_it_is_then(short_turns):
    async def story():
        scene = Scene()
        first, _, third = (scene.follow(number) for number in range(3))

        def between_turns():
            scene.forget(1)
            first.is_being_cut = True
            scene.follow(0)

        third.on_look = lambda _: scene.loop.call_soon(between_turns)
        assert await scene.asked() == [2]
        first.is_being_cut = False
        await scene.asked(after_s=SHORTEST_REST_S)
        third.on_look = scene.looked_at.append
        assert await scene.answered({2: 1}) == [2, 0]

    finish_in_virtual_time(story())


class Checked(Scene):
    """With a second opinion on what each request must come to."""

    def __init__(self):
        super().__init__(on_asked=self._check_all)
        self.mistakes = []
        self.followed = set()
        self.rests_until, self.rest_s = defaultdict(float), defaultdict(float)
        never = -LOOK_AT_ALL_S
        self.cut_ended_s = defaultdict(lambda: never)
        self.changed_s = defaultdict(lambda: never)

    def _check_all(self):
        self.mistakes += [
            (number, partition.leader_epoch, partition.log, self.meant.get(number))
            for number, partition in self.partitions.items()
            if not self._is_right(number, partition, self.loop.time())
        ]

    def _is_right(self, number, partition, now_s):
        asked = self.meant.get(number)
        rests = self.rests_until[number] > now_s
        if partition.is_being_cut or rests or number not in self.followed:
            return asked is None
        if asked is None:
            return now_s <= self.cut_ended_s[number] + SHORTEST_REST_S
        own = (partition.log.end_offset, partition.log.start_offset)
        is_late = now_s < self.changed_s[number] + LOOK_AT_ALL_S
        is_same = (asked.fetch_offset, asked.log_start_offset) == own
        return asked.current_leader_epoch == partition.leader_epoch and (is_same or is_late)

    # What may happen

    def is_followed(self, number):
        self.followed.add(number)
        self.rests_until[number] = self.rest_s[number] = 0.0
        return self.follow(number)

    def is_followed_while_it_is_cut(self, number):
        self.is_followed(number).is_being_cut = True

    def is_forgotten(self, number):
        self.followed.discard(number)
        self.forget(number)

    def has_been_cut(self, number):
        if number in self.partitions and self.partitions[number].is_being_cut:
            self.partitions[number].is_being_cut = False
            self.cut_ended_s[number] = self.loop.time()

    def begins_later(self, number):
        if number in self.partitions:
            self.partitions[number].log.start_offset += 1
            self.changed_s[number] = self.loop.time()

    def is_opened_again_and_shorter(self, number):
        if number in self.partitions and self.partitions[number].log.end_offset:
            self.partitions[number].log.end_offset -= 1
            self.changed_s[number] = self.loop.time()

    # What the leader may say

    async def tell(self, lines):
        for number, outcome in lines.items():
            if number in self.meant and self._takes(number):
                self._note(number, outcome)
        await self.answered(lines)

    def _takes(self, number):
        asked, partition = self.meant[number], self.partitions[number]
        return (
            number in self.followed
            and asked.current_leader_epoch == partition.leader_epoch
            and asked.fetch_offset == partition.log.end_offset
        )

    def _note(self, number, outcome):
        if outcome == REFUSED:
            rest_s = min(BACKOFF_S, max(FIRST_REST_S, 2 * self.rest_s[number]))
            self.rests_until[number] = self.loop.time() + rest_s
            self.rest_s[number] = rest_s
        else:
            self.rest_s[number] = 0.0


NUMBERS = st.integers(0, 4)
EVENTS = st.sampled_from(
    [
        Checked.is_followed,
        Checked.is_followed_while_it_is_cut,
        Checked.is_forgotten,
        Checked.has_been_cut,
        Checked.begins_later,
        Checked.is_opened_again_and_shorter,
    ]
)
LINES = st.dictionaries(NUMBERS, st.integers(0, 2) | st.just(REFUSED))
FAILURES = st.sampled_from([ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ConnectionResetError("cut")])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(EVENTS, NUMBERS), max_size=3),
        st.sampled_from([0.0, 0.005, SHORTEST_REST_S, FIRST_REST_S, 0.3, LOOK_AT_ALL_S]),
        LINES | LINES | LINES | FAILURES,
    ),
    max_size=30,
)


@given(STEPS)
def test_a_request_comes_to_what_looking_at_all_would(steps):
    async def story():
        scene = Checked()
        for number in range(3):
            scene.is_followed(number)
        await scene.asked()
        for events, passed_s, answer in steps:
            for happens, number in events:
                happens(scene, number)
            await asyncio.sleep(passed_s)
            if not scene.is_asked:
                continue
            if isinstance(answer, dict):
                await scene.tell(answer)
            else:
                scene.fails(answer)
                await scene.asked()
        assert not scene.mistakes
        assert not scene.gaps

    finish_in_virtual_time(story())
