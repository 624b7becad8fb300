"""A session that reads dirty partitions responds like one that reads all partitions.

The same happens to two brokers; the second scans all partitions in every pass.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.broker import time_slice
from odradek.broker.fetching import fetch_reader
from odradek.broker.fetching.dirty_partitions import FULL_SCAN_INTERVAL_MS
from odradek.protocol.api.fetch import FetchRequest
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, request, values
from tests.support.hosted_partitions import BROKER
from tests.support.loops import finish

CONSUMER, FOLLOWER, OTHER = -1, 2, 3
PARTITIONS = range(2)
LAG_MS = 10_000
#: More loop iterations than a fetch takes that reads each partition in its own time slice.
LOOP_ITERATIONS = 4 * len(PARTITIONS) + 10

A_PARTITION = st.sampled_from(PARTITIONS)
SERVER_STEPS = st.one_of(
    st.tuples(st.just("append"), A_PARTITION, st.integers(1, 3)),
    st.tuples(st.just("grow"), A_PARTITION, st.integers(1, 3)),
    st.tuples(st.just("replicate"), A_PARTITION, st.sampled_from([FOLLOWER, OTHER])),
    st.tuples(st.just("delete"), A_PARTITION, st.integers(1, 3)),
    st.tuples(st.just("shrink"), A_PARTITION, st.sampled_from([FOLLOWER, OTHER])),
    st.tuples(st.just("restore"), A_PARTITION, st.just(0)),
    st.tuples(st.just("lose"), A_PARTITION, st.just(0)),
    st.tuples(st.just("win"), A_PARTITION, st.just(0)),
    st.tuples(st.just("pause"), A_PARTITION, st.sampled_from([1, FULL_SCAN_INTERVAL_MS // 2])),
)
CLIENT_STEPS = st.one_of(
    st.tuples(st.just("catch_up"), A_PARTITION, st.just(0)),
    st.tuples(st.just("seek"), A_PARTITION, st.integers(0, 4)),
    st.tuples(st.just("forget"), A_PARTITION, st.just(0)),
    st.tuples(st.just("add"), A_PARTITION, st.just(0)),
    st.tuples(st.just("renew_session"), A_PARTITION, st.just(0)),
    st.tuples(st.just("restart"), A_PARTITION, st.just(0)),
)
FETCHES = st.tuples(st.just("fetch"), A_PARTITION, st.sampled_from([0, 60_000]))
SETTLING = st.tuples(st.just("settle"), A_PARTITION, st.booleans())
#: Long enough for partitions to become clean, and dirty again.
STEPS = st.lists(
    st.one_of(SETTLING, FETCHES, SETTLING, SERVER_STEPS, SERVER_STEPS, CLIENT_STEPS),
    min_size=10,
    max_size=30,
)


class Broker(FetchBench):
    """One of the two brokers, and the events on it."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.hosting.replicas.isr_manager = SimpleNamespace(
            now_ms=lambda: self.now_ms,
            lag_max_ms=LAG_MS,
            submit=lambda partition, isr: None,
            is_eligible=lambda replica_id: True,
        )
        self.epochs = dict.fromkeys(PARTITIONS, 0)
        self.partitions = [self.become(index) for index in PARTITIONS]
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
        if self.partitions[index].leader_state is not None:
            append(self.partitions[index], *[b"v"] * count)

    def grow(self, index, count):
        """Appends records that all replicas have at once."""
        self.append(index, count)
        for replica_id in (FOLLOWER, OTHER):
            self.replicate(index, replica_id)

    def replicate(self, index, replica_id):
        partition = self.partitions[index]
        if partition.leader_state is not None:
            end = partition.log.log_end_offset
            partition.update_follower_fetch_state(
                replica_id, fetch_offset=end, follower_start_offset=0
            )
            if replica_id == FOLLOWER:
                self.now_ms += FULL_SCAN_INTERVAL_MS  # the session learns of it in the next scan

    def delete(self, index, count):
        log = self.partitions[index].log
        log.maybe_increment_log_start_offset(min(log.high_watermark, log.log_start_offset + count))
        self.now_ms += FULL_SCAN_INTERVAL_MS  # this marks no partition dirty

    def shrink(self, index, replica_id):
        self._update_isr(index, {BROKER, FOLLOWER, OTHER} - {replica_id})

    def restore(self, index, _):
        self._update_isr(index, {BROKER, FOLLOWER, OTHER})

    def _update_isr(self, index, isr):
        partition = self.partitions[index]
        if partition.leader_state is not None:
            epoch = partition.partition_epoch + 1
            partition.update_isr(isr, partition_epoch=epoch)

    def lose(self, index, _):
        self.epochs[index] += 1
        self.become(index, leader=OTHER)

    def win(self, index, _):
        self.epochs[index] += 1
        self.become(index)

    def pause(self, _, ms):
        self.now_ms += ms

    def last_response(self):
        """Returns the response to the last fetch, or None while it waits."""
        if self.waiting is None or not self.waiting.done():
            return None
        response = self.waiting.result()
        self.session_id = response.session_id
        return response.error_code, {
            partition_response.partition_index: (
                partition_response.error_code,
                partition_response.high_watermark,
                partition_response.log_start_offset,
                values(partition_response),
            )
            for partition_response in lines(response)
        }

    def state(self):
        """Returns the follower states and the high watermarks."""
        return [
            (
                partition.log.high_watermark,
                partition.leader_state
                and [
                    (
                        replica,
                        follower.log_end_offset,
                        follower.last_caught_up_time_ms,
                        follower.broker_epoch,
                    )
                    for replica, follower in partition.leader_state.followers.items()
                ],
            )
            for partition in self.partitions
        ]


class Scene:
    """Both brokers, and a client with a session on each."""

    def __init__(self, path, replica_id):
        self.replica_id, self.replica_epoch = replica_id, 1
        self.brokers = [Broker(path / "dirty"), Broker(path / "all", whole_pass_ms=0)]
        self.first = self.brokers[0]
        self._begin_session(PARTITIONS)

    def _begin_session(self, partitions):
        self.offsets = dict.fromkeys(partitions, 0)
        self.changed, self.forgotten, self.epoch = set(partitions), set(), 0

    async def step(self, action, index, number):
        if action == "settle":
            await self._settle(is_replicated=number)
        elif hasattr(Broker, action):
            for broker in self.brokers:
                getattr(broker, action)(index, number)
        else:
            self._cancel_waiting()
            getattr(self, action)(index, number)
        await self.compare()

    async def _settle(self, *, is_replicated):
        """Leads all partitions here, perhaps replicates them, and lets the client learn of it."""
        for index in PARTITIONS:
            if self.first.partitions[index].leader_state is None:
                await self.step("win", index, 0)
            await self.step("restore", index, 0)
            if is_replicated:
                await self.step("replicate", index, FOLLOWER)
                await self.step("replicate", index, OTHER)
            await self.step("catch_up", index, 0)
        for _ in range(3):
            await self.step("fetch", 0, 0)

    async def compare(self):
        for _ in range(LOOP_ITERATIONS):
            await asyncio.sleep(0)
        dirty_only, full_scan = (broker.last_response() for broker in self.brokers)
        assert dirty_only == full_scan
        assert dirty_only is None or dirty_only[0] == 0
        dirty_only, full_scan = (broker.state() for broker in self.brokers)
        assert dirty_only == full_scan

    def _cancel_waiting(self):
        """Cancels the waiting fetch; if it is the first one, its session ends as well."""
        if self.epoch == 1 and self.first.waiting is not None and not self.first.waiting.done():
            self._begin_session(self.offsets)
        for broker in self.brokers:
            if broker.waiting is not None:
                broker.waiting.cancel()
                broker.waiting = None

    def catch_up(self, index, _):
        if index in self.offsets:
            self.offsets[index] = self.first.partitions[index].log.log_end_offset
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

    def add(self, index, _):
        if index not in self.offsets:
            self.offsets[index] = 0
            self.changed.add(index)
            self.forgotten.discard(index)

    def renew_session(self, *_):
        """Ends the old session and begins another."""
        self._begin_session(self.offsets)

    def restart(self, *_):
        """Restarts a follower; a consumer changes its isolation level."""
        self.replica_epoch += 1

    def fetch(self, _, max_wait_ms):
        is_follower = self.replica_id == FOLLOWER
        for broker in self.brokers:
            fetch_request = request(
                *(
                    asked(index, self.offsets[index], log_start_offset=0)
                    for index in sorted(self.changed)
                ),
                session_id=broker.session_id,
                session_epoch=self.epoch,
                max_wait_ms=max_wait_ms,
                isolation_level=0 if is_follower else self.replica_epoch % 2,
                replica_state=FetchRequest.ReplicaState(
                    replica_id=self.replica_id,
                    replica_epoch=self.replica_epoch if is_follower else -1,
                ),
            )
            forgotten_topic = FetchRequest.ForgottenTopic(
                topic="events", partitions=sorted(self.forgotten)
            )
            fetch_request.forgotten_topics_data = [forgotten_topic]
            broker.waiting = broker.hosting.background.start(
                in_the_end(broker.fetched(fetch_request))
            )
        self.changed, self.forgotten, self.epoch = set(), set(), self.epoch + 1

    async def end(self):
        self._cancel_waiting()
        for broker in self.brokers:
            broker.sessions._close_session(broker.session_id)
        await asyncio.sleep(0)
        assert not any(
            partition.fetch_watchers or partition.follower_fetch_watchers
            for broker in self.brokers
            for partition in broker.partitions
        )


def run(replica_id, steps):
    async def run_steps():
        scene = Scene(Path(directory), replica_id)
        await scene.step("fetch", 0, 0)
        for step in steps:
            await scene.step(*step)
        await scene.step("fetch", 0, 0)
        await scene.end()

    with TemporaryDirectory() as directory:
        finish(run_steps())


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_consumer_gets_the_same_responses_at_the_same_time(steps):
    run(CONSUMER, steps)


#: A high watermark moves without waking a follower.
HIGH_WATERMARK_MOVED_BY_OTHER = [
    ("settle", 0, True),
    ("append", 0, 1),
    ("settle", 0, False),
    ("replicate", 0, OTHER),
    ("fetch", 0, 0),
]


@settings(deadline=None, max_examples=40)
@example(HIGH_WATERMARK_MOVED_BY_OTHER)
@given(STEPS)
def test_follower_gets_the_same_responses_and_has_the_same_state(steps):
    run(FOLLOWER, steps)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([CONSUMER, FOLLOWER]), STEPS)
def test_responses_are_the_same_in_time_slices(replica_id, steps):
    with (
        mock.patch.object(time_slice, "TIME_SLICE_S", 0.0),
        mock.patch.object(fetch_reader, "INLINE_ENTRIES_MAX", 0),
    ):
        run(replica_id, steps)
