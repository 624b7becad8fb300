"""A session looks at those of its partitions that have stirred, and leaves nothing behind."""

import asyncio

import pytest

from odradek.broker import turns
from odradek.broker.fetching import fetch_plan, fetch_session
from odradek.broker.fetching.fetch_plan import FetchPlan
from odradek.broker.fetching.stirred_partitions import WHOLE_PASS_MS, Asker, StirredPartitions
from odradek.broker.fetching.wanted import Wanted
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.errors import InvalidFetchSessionEpoch
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, numbers, request, told
from tests.support.hosted_partitions import BROKER

CONSUMER, FOLLOWER, OTHER = -1, 2, 3
COUNT = 5
OUT_OF_ORDER = InvalidFetchSessionEpoch.error.code
WHO = pytest.mark.parametrize("who", [CONSUMER, FOLLOWER])


class Scene(FetchBench):
    """Partitions with a record each, and a session of one who has all, and has heard of it."""

    def __init__(self, path, who, **options):
        super().__init__(path, **options)
        self.who = who
        self.partitions = []
        self.session_id = self.epoch = 0

    async def begin(self, count=COUNT, replicas=(BROKER, FOLLOWER)):
        for each in range(count):
            partition = self.lead(each, replicas=replicas)
            append(partition)
            for follower in replicas[1:]:
                partition.follower_fetched(follower, offset=1, start_offset=0)
            self.partitions.append(partition)
        response = await self.ask(*(asked(each, 1, log_start_offset=0) for each in range(count)))
        self.session_id = response.session_id
        for _ in range(2):  # a follower is noted by the first
            await self.ask()
        return self

    async def ask(self, *changed, **fields):
        return await in_the_end(self.asking(*changed, **fields))

    def asking(self, *changed, forgotten=(), **fields):
        wanted = request(
            *changed,
            **{
                "session_id": self.session_id,
                "session_epoch": self.epoch,
                "replica_state": FetchRequest.ReplicaState(replica_id=self.who),
                **fields,
            },
        )
        if forgotten:
            gone = FetchRequest.ForgottenTopic(topic="events", partitions=list(forgotten))
            wanted.forgotten_topics_data = [gone]
        self.epoch += 1
        return self.fetched(wanted)

    async def wait(self, **fields):
        """A fetch that has begun to."""
        answer = self.asking(max_wait_ms=60_000, **fields)
        waiting = self.hosting.background.start(in_the_end(answer))
        await asyncio.sleep(0)
        return waiting

    def grow(self, index, *values):
        """Readable for all: the follower has it too."""
        partition = self.partitions[index]
        append(partition, *values)
        end = partition.log.end_offset
        partition.follower_fetched(FOLLOWER, offset=end, start_offset=0)

    def standing(self):
        """How many wait at each partition."""
        return [len(each.waiting) + len(each.waiting_followers) for each in self.partitions]


@pytest.fixture
def compared(monkeypatch):
    """The numbers of partitions that a pass went over."""
    compare, seen = FetchPlan._is_passed_over, []

    def counted(plan, wanted):
        seen.append(wanted.asked.partition)
        return compare(plan, wanted)

    monkeypatch.setattr(FetchPlan, "_is_passed_over", counted)
    return seen


# Which are looked at


@WHO
async def test_of_a_thousand_quiet_partitions_only_that_which_is_named_is_looked_at(
    tmp_path, compared, who
):
    scene = await Scene(tmp_path, who).begin(1_000)
    compared.clear()
    answer = scene.asking(asked(700, 0, log_start_offset=0))
    assert numbers(answer) == [700]  # at once, as for any small fetch
    assert compared == [700]


@WHO
async def test_and_only_that_which_has_grown(tmp_path, compared, who):
    scene = await Scene(tmp_path, who).begin()
    compared.clear()
    scene.grow(3, b"a")
    assert told(scene.asking()) == [(3, "NONE", [b"a"])]
    assert compared == [3]


@WHO
async def test_one_that_has_been_read_to_its_end_is_quiet_again(tmp_path, compared, who):
    scene = await Scene(tmp_path, who).begin()
    scene.grow(3, b"a")
    await scene.ask()
    await scene.ask(asked(3, 2, log_start_offset=0))
    await scene.ask()
    compared.clear()
    assert told(await scene.ask()) == []
    assert compared == []


@WHO
async def test_one_whose_records_had_no_room_is_looked_at_again(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    for each in (1, 2, 3):
        scene.grow(each, b"a")
    first = [told(await scene.ask(max_bytes=1)) for _ in range(4)]
    assert [[number for number, _, values in each if values] for each in first] == [
        [1],
        [2],
        [3],
        [1],
    ]


async def test_a_waiting_fetch_that_is_woken_looks_only_at_what_has_stirred(tmp_path, compared):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    waiting = await scene.wait()
    compared.clear()
    append(scene.partitions[2], b"a")
    assert told(await waiting) == [(2, "NONE", [b"a"])]
    assert compared == [2]


async def test_who_follows_hears_of_a_watermark_by_its_next_fetch_without_being_woken(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin(replicas=(BROKER, FOLLOWER, OTHER))
    append(scene.partitions[2], b"a")
    await scene.ask()
    await scene.ask(asked(2, 2, log_start_offset=0))
    for _ in range(2):
        assert numbers(await scene.ask()) == []
    waiting = await scene.wait()
    scene.partitions[2].follower_fetched(OTHER, offset=2, start_offset=0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    (line,) = lines(await scene.ask())
    assert (line.partition_index, line.high_watermark) == (2, 2)


# What wakes nobody


@WHO
async def test_a_start_that_was_moved_silently_is_told_of_a_little_later(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    scene.partitions[1].log.advance_start(1)
    assert numbers(await scene.ask()) == []
    scene.now_ms += WHOLE_PASS_MS
    (line,) = lines(await scene.ask())
    assert (line.partition_index, line.log_start_offset) == (1, 1)


@WHO
async def test_and_when_the_time_of_a_waiting_fetch_is_over(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    waiting = scene.asking(max_wait_ms=20)
    scene.partitions[1].log.advance_start(1)
    scene.now_ms += WHOLE_PASS_MS
    (line,) = lines(await waiting)
    assert (line.partition_index, line.log_start_offset) == (1, 1)


async def test_a_follower_whose_other_session_was_heard_last_is_heard_in_this_one_again(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    progress = scene.partitions[0].leader.followers[FOLLOWER]
    here = progress.heard
    assert here is not None
    scene.partitions[0].follower_fetched(FOLLOWER, offset=1, start_offset=0)
    assert progress.heard is None
    scene.now_ms += WHOLE_PASS_MS
    await scene.ask()
    assert progress.heard is here


# Nothing is missed


@WHO
@pytest.mark.parametrize("few", [100, 0])
async def test_a_session_that_goes_over_all_in_turns_misses_nothing(
    tmp_path, monkeypatch, who, few
):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(fetch_plan, "FEW", few)
    scene = await Scene(tmp_path, who).begin()
    for offset in range(1, 3 * COUNT):
        scene.now_ms += WHOLE_PASS_MS
        fetching = scene.hosting.background.start(
            in_the_end(scene.asking(asked(0, offset, log_start_offset=0), max_wait_ms=60_000))
        )
        for _ in range(offset):
            await asyncio.sleep(0)
        scene.grow(0, b"a")
        async with asyncio.timeout(10):
            answer = await fetching
        assert [values for number, _, values in told(answer) if number == 0] == [[b"a"]]


@pytest.mark.parametrize("turn_s", [turns.TURN_S, 0.0])
async def test_one_that_waits_for_more_is_woken_by_the_same_partition_again(
    tmp_path, monkeypatch, turn_s
):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    monkeypatch.setattr(turns, "TURN_S", turn_s)
    size = append(scene.partitions[0], b"a")
    waiting = await scene.wait(min_bytes=4 * size)
    for steps in (1, 2, 3 * COUNT):
        for _ in range(steps):
            await asyncio.sleep(0)
        assert not waiting.done()
        append(scene.partitions[0], b"a")
    async with asyncio.timeout(10):
        assert told(await waiting) == [(0, "NONE", [b"a"] * 4)]


async def test_nothing_is_missed_while_very_many_that_have_stirred_are_read(tmp_path, monkeypatch):
    """They are read in turns, between which the first of them stirs again."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    for steps in range(3 * COUNT):
        scene = await Scene(tmp_path / str(steps), FOLLOWER).begin()
        size = append(scene.partitions[0], b"a")
        waiting = await scene.wait(min_bytes=(COUNT + 1) * size)
        for partition in scene.partitions[1:]:
            append(partition, b"a")
        for _ in range(steps):
            await asyncio.sleep(0)
        assert not waiting.done()
        append(scene.partitions[0], b"a")
        async with asyncio.timeout(10):
            assert len(lines(await waiting)) == COUNT


@WHO
async def test_a_fetch_whose_session_was_driven_out_is_woken_all_the_same(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    waiting = await scene.wait()
    scene.sessions._end(scene.session_id)
    assert scene.standing() == [1] * COUNT
    scene.grow(4, b"a")
    assert told(await waiting) == [(4, "NONE", [b"a"])]
    assert scene.standing() == [0] * COUNT


async def test_two_fetches_of_a_session_are_both_woken(tmp_path):
    scene = await Scene(tmp_path, CONSUMER).begin()
    overtaken, waiting = await scene.wait(), await scene.wait()
    scene.grow(4, b"a")
    assert [(await each).error_code for each in (overtaken, waiting)] == [OUT_OF_ORDER, 0]
    # Of what both had read, the one that was refused may have let go.
    assert told(await scene.ask()) == [(4, "NONE", [b"a"])]


# Nothing stays behind


@WHO
async def test_what_stands_at_a_partition_for_a_session_is_woken_once(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    assert scene.standing() == [1] * COUNT
    scene.grow(2)
    assert scene.standing() == [1, 1, 0, 1, 1]


def closed(scene):
    return scene.asking(session_epoch=-1)


def replaced(scene):
    return scene.asking(session_epoch=0)


def emptied(scene):
    return scene.asking(forgotten=range(COUNT))


def driven_out(scene):
    scene.now_ms += 1_000_000
    new = scene.asking(asked(COUNT), session_id=0, session_epoch=0)
    assert scene.sessions.evicted_count == 1
    return new


@WHO
@pytest.mark.parametrize("end", [closed, replaced, emptied, driven_out])
async def test_a_session_that_is_over_has_left_its_partitions(tmp_path, who, end):
    scene = await Scene(tmp_path, who, slots=1).begin()
    assert scene.standing() == [1] * COUNT
    end(scene)
    assert scene.standing() == [0] * COUNT


async def test_so_has_one_that_wants_too_much_that_is_not_here(tmp_path, monkeypatch):
    scene = await Scene(tmp_path, CONSUMER).begin()
    monkeypatch.setattr(fetch_session, "ABSENT_MAX", 2)
    scene.asking(*(asked(COUNT + each) for each in range(3)))
    assert len(scene.sessions) == 0
    assert scene.standing() == [0] * COUNT


@WHO
async def test_so_has_what_is_forgotten(tmp_path, who):
    scene = await Scene(tmp_path, who).begin()
    scene.asking(forgotten=[1, 3])
    assert scene.standing() == [1, 0, 1, 0, 1]


async def test_what_is_forgotten_while_all_are_gone_over_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(fetch_plan, "FEW", 0)
    scene = await Scene(tmp_path, CONSUMER).begin()
    scene.now_ms += WHOLE_PASS_MS
    going_over = scene.hosting.background.start(in_the_end(scene.asking()))
    await asyncio.sleep(0)
    forgetting = scene.hosting.background.start(in_the_end(scene.asking(forgotten=[3])))
    await asyncio.wait([going_over, forgetting])
    assert scene.standing() == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
@pytest.mark.parametrize("steps", range(2 * COUNT))
async def test_a_session_that_is_over_in_the_middle_of_a_fetch_has_left_at_its_end(
    tmp_path, monkeypatch, steps, max_wait_ms
):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(fetch_plan, "FEW", 0)
    scene = await Scene(tmp_path, CONSUMER).begin()
    scene.now_ms += WHOLE_PASS_MS
    answer = scene.asking(max_wait_ms=max_wait_ms)
    fetching = scene.hosting.background.start(in_the_end(answer))
    for _ in range(steps):
        await asyncio.sleep(0)
    scene.sessions._end(scene.session_id)
    for _ in range(3 * COUNT):
        await asyncio.sleep(0)
    scene.grow(0, b"a")
    async with asyncio.timeout(10):
        response = await fetching
    assert told(response) == ([(0, "NONE", [b"a"])] if max_wait_ms else [])
    assert scene.standing() == [0] * COUNT


async def test_what_stands_for_a_session_waits_only_while_a_fetch_does():
    stirred = StirredPartitions({}, Asker(CONSUMER, -1, 0), now_ms=lambda: 0)
    wanted, fetch = Wanted("events", ZERO_UUID, asked(0, 1)), object()
    assert not wanted.is_waiting
    stirred.add(wanted)
    assert not wanted.is_waiting
    stirred.stand(fetch)
    assert wanted.is_waiting
    stirred.leave(fetch)
    assert not wanted.is_waiting


async def test_what_has_stirred_is_told_in_the_order_of_the_session(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    for each in (3, 1):
        append(scene.partitions[each])
    assert numbers(await scene.ask()) == [1, 3]
