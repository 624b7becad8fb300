"""A session that looks at what has stirred tells the same as one that looks at all, every time.

The same happens to two brokers, of which the second goes over all partitions in every pass.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.broker import turns
from odradek.broker.fetching import fetch_plan
from odradek.broker.fetching.stirred_partitions import WHOLE_PASS_MS
from odradek.protocol.api.fetch import FetchRequest
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, request, values
from tests.support.hosted_partitions import BROKER
from tests.support.loops import finish

CONSUMER, FOLLOWER, OTHER = -1, 2, 3
PARTITIONS = range(2)
LAG_MS = 10_000
#: More turns of the loop than a fetch takes that reads each partition in one of its own.
TURNS = 4 * len(PARTITIONS) + 10

SOME = st.sampled_from(PARTITIONS)
SERVER_STEPS = st.one_of(
    st.tuples(st.just("append"), SOME, st.integers(1, 3)),
    st.tuples(st.just("grow"), SOME, st.integers(1, 3)),
    st.tuples(st.just("replicate"), SOME, st.sampled_from([FOLLOWER, OTHER])),
    st.tuples(st.just("delete"), SOME, st.integers(1, 3)),
    st.tuples(st.just("shrink"), SOME, st.sampled_from([FOLLOWER, OTHER])),
    st.tuples(st.just("restore"), SOME, st.just(0)),
    st.tuples(st.just("lose"), SOME, st.just(0)),
    st.tuples(st.just("win"), SOME, st.just(0)),
    st.tuples(st.just("pause"), SOME, st.sampled_from([1, WHOLE_PASS_MS // 2])),
)
CLIENT_STEPS = st.one_of(
    st.tuples(st.just("catch_up"), SOME, st.just(0)),
    st.tuples(st.just("seek"), SOME, st.integers(0, 4)),
    st.tuples(st.just("forget"), SOME, st.just(0)),
    st.tuples(st.just("want"), SOME, st.just(0)),
    st.tuples(st.just("renew"), SOME, st.just(0)),
    st.tuples(st.just("live_again"), SOME, st.just(0)),
)
FETCHES = st.tuples(st.just("fetch"), SOME, st.sampled_from([0, 60_000]))
SETTLING = st.tuples(st.just("settle"), SOME, st.booleans())
#: Long enough to become quiet, and to stir again.
STEPS = st.lists(
    st.one_of(SETTLING, FETCHES, SETTLING, SERVER_STEPS, SERVER_STEPS, CLIENT_STEPS),
    min_size=10,
    max_size=30,
)


class Broker(FetchBench):
    """One of the two: what happens to it."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.hosting.replicas.in_sync = SimpleNamespace(
            now_ms=lambda: self.now_ms,
            lag_max_ms=LAG_MS,
            propose=lambda partition, in_sync: None,
            is_eligible=lambda replica_id: True,
        )
        self.epochs = dict.fromkeys(PARTITIONS, 0)
        self.partitions = [self.become(each) for each in PARTITIONS]
        self.session_id = 0
        self.waiting = None

    def become(self, index, leader=BROKER):
        return self.lead(
            index,
            leader=leader,
            replicas=(BROKER, FOLLOWER, OTHER),
            epoch=self.epochs[index],
        )

    def append(self, index, count):
        if self.partitions[index].leader is not None:
            append(self.partitions[index], *[b"v"] * count)

    def grow(self, index, count):
        """And all have it at once."""
        self.append(index, count)
        for replica_id in (FOLLOWER, OTHER):
            self.replicate(index, replica_id)

    def replicate(self, index, replica_id):
        partition = self.partitions[index]
        if partition.leader is not None:
            end = partition.log.end_offset
            partition.follower_fetched(replica_id, offset=end, start_offset=0)
            if replica_id == FOLLOWER:
                self.now_ms += WHOLE_PASS_MS  # by another session, of which this one does not hear

    def delete(self, index, count):
        log = self.partitions[index].log
        log.advance_start(min(log.high_watermark, log.start_offset + count))
        self.now_ms += WHOLE_PASS_MS  # it wakes nobody

    def shrink(self, index, replica_id):
        self._agree(index, {BROKER, FOLLOWER, OTHER} - {replica_id})

    def restore(self, index, _):
        self._agree(index, {BROKER, FOLLOWER, OTHER})

    def _agree(self, index, in_sync):
        partition = self.partitions[index]
        if partition.leader is not None:
            epoch = partition.partition_epoch + 1
            partition.in_sync_changed(in_sync, partition_epoch=epoch)

    def lose(self, index, _):
        self.epochs[index] += 1
        self.become(index, leader=OTHER)

    def win(self, index, _):
        self.epochs[index] += 1
        self.become(index)

    def pause(self, _, ms):
        self.now_ms += ms

    def told(self):
        """What the last fetch was answered; None while it waits."""
        if self.waiting is None or not self.waiting.done():
            return None
        response = self.waiting.result()
        self.session_id = response.session_id
        return response.error_code, {
            line.partition_index: (
                line.error_code,
                line.high_watermark,
                line.log_start_offset,
                values(line),
            )
            for line in lines(response)
        }

    def state(self):
        """What was noted of the follower, and what came of it."""
        return [
            (
                partition.log.high_watermark,
                partition.leader
                and [
                    (replica, each.end_offset, each.last_at_end_ms, each.broker_epoch)
                    for replica, each in partition.leader.followers.items()
                ],
            )
            for partition in self.partitions
        ]


class Scene:
    """Both brokers, and a client that has a session of each."""

    def __init__(self, path, who):
        self.who, self.replica_epoch = who, 1
        self.brokers = [Broker(path / "stirred"), Broker(path / "all", whole_pass_ms=0)]
        self.first = self.brokers[0]
        self._begin(PARTITIONS)

    def _begin(self, wanted):
        self.offsets = dict.fromkeys(wanted, 0)
        self.changed, self.forgotten, self.epoch = set(wanted), set(), 0

    async def step(self, what, index, number):
        if what == "settle":
            await self._settle(is_replicated=number)
        elif hasattr(Broker, what):
            for broker in self.brokers:
                getattr(broker, what)(index, number)
        else:
            self._drop()
            getattr(self, what)(index, number)
        await self.compare()

    async def _settle(self, *, is_replicated):
        """All is led here, perhaps replicated too, and the client has heard of it."""
        for index in PARTITIONS:
            if self.first.partitions[index].leader is None:
                await self.step("win", index, 0)
            await self.step("restore", index, 0)
            if is_replicated:
                await self.step("replicate", index, FOLLOWER)
                await self.step("replicate", index, OTHER)
            await self.step("catch_up", index, 0)
        for _ in range(3):
            await self.step("fetch", 0, 0)

    async def compare(self):
        for _ in range(TURNS):
            await asyncio.sleep(0)
        stirred, everything = (broker.told() for broker in self.brokers)
        assert stirred == everything
        assert stirred is None or stirred[0] == 0
        stirred, everything = (broker.state() for broker in self.brokers)
        assert stirred == everything

    def _drop(self):
        """What waits still is cut; the first fetch with it its session."""
        if self.epoch == 1 and self.first.waiting is not None and not self.first.waiting.done():
            self._begin(self.offsets)
        for broker in self.brokers:
            if broker.waiting is not None:
                broker.waiting.cancel()
                broker.waiting = None

    def catch_up(self, index, _):
        if index in self.offsets:
            self.offsets[index] = self.first.partitions[index].log.end_offset
            self.changed.add(index)

    def seek(self, index, offset):
        if index in self.offsets:
            self.offsets[index] = offset
            self.changed.add(index)

    def forget(self, index, _):
        if index in self.offsets and len(self.offsets) > 1:
            del self.offsets[index]
            self.changed.discard(index)
            self.forgotten.add(index)

    def want(self, index, _):
        if index not in self.offsets:
            self.offsets[index] = 0
            self.changed.add(index)
            self.forgotten.discard(index)

    def renew(self, *_):
        """Which ends the old session."""
        self._begin(self.offsets)

    def live_again(self, *_):
        """A follower that was started again; a consumer now reads otherwise."""
        self.replica_epoch += 1

    def fetch(self, _, max_wait_ms):
        is_follower = self.who == FOLLOWER
        for broker in self.brokers:
            wanted = request(
                *(
                    asked(index, self.offsets[index], log_start_offset=0)
                    for index in sorted(self.changed)
                ),
                session_id=broker.session_id,
                session_epoch=self.epoch,
                max_wait_ms=max_wait_ms,
                isolation_level=0 if is_follower else self.replica_epoch % 2,
                replica_state=FetchRequest.ReplicaState(
                    replica_id=self.who, replica_epoch=self.replica_epoch if is_follower else -1
                ),
            )
            gone = FetchRequest.ForgottenTopic(topic="events", partitions=sorted(self.forgotten))
            wanted.forgotten_topics_data = [gone]
            broker.waiting = broker.hosting.background.start(in_the_end(broker.fetched(wanted)))
        self.changed, self.forgotten, self.epoch = set(), set(), self.epoch + 1

    async def end(self):
        self._drop()
        for broker in self.brokers:
            broker.sessions._end(broker.session_id)
        await asyncio.sleep(0)
        assert not any(
            partition.waiting or partition.waiting_followers
            for broker in self.brokers
            for partition in broker.partitions
        )


def run(who, steps):
    async def scene():
        both = Scene(Path(directory), who)
        await both.step("fetch", 0, 0)
        for step in steps:
            await both.step(*step)
        await both.step("fetch", 0, 0)
        await both.end()

    with TemporaryDirectory() as directory:
        finish(scene())


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_a_consumer_is_told_the_same_at_the_same_time(steps):
    run(CONSUMER, steps)


#: A watermark moves for which no follower is woken.
BY_THE_OTHER = [
    ("settle", 0, True),
    ("append", 0, 1),
    ("settle", 0, False),
    ("replicate", 0, OTHER),
    ("fetch", 0, 0),
]


@settings(deadline=None, max_examples=40)
@example(BY_THE_OTHER)
@given(STEPS)
def test_a_follower_is_told_the_same_at_the_same_time_and_noted_alike(steps):
    run(FOLLOWER, steps)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([CONSUMER, FOLLOWER]), STEPS)
def test_so_are_both_if_all_is_read_in_turns(who, steps):
    with mock.patch.object(turns, "TURN_S", 0.0), mock.patch.object(fetch_plan, "FEW", 0):
        run(who, steps)
