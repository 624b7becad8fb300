"""A session reads its dirty partitions only, and leaves no watchers behind."""

import asyncio

import pytest

from odradek.broker import time_slice
from odradek.broker.fetching import fetch_reader, fetch_session
from odradek.broker.fetching.dirty_partitions import (
    FULL_SCAN_INTERVAL_MS,
    DirtyPartitions,
    FetchRequester,
)
from odradek.broker.fetching.fetch_partition import FetchPartition
from odradek.broker.fetching.fetch_reader import FetchReader
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.errors import InvalidFetchSessionEpoch
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, numbers, request, told
from tests.support.hosted_partitions import BROKER

CONSUMER, FOLLOWER, OTHER = -1, 2, 3
COUNT = 5
OUT_OF_ORDER = InvalidFetchSessionEpoch.error_code.code
BOTH_REPLICA_IDS = pytest.mark.parametrize("replica_id", [CONSUMER, FOLLOWER])


class Scene(FetchBench):
    """Partitions with a record each, and a session of a client that has fetched all of them."""

    def __init__(self, path, replica_id, **options):
        super().__init__(path, **options)
        self.replica_id = replica_id
        self.partitions = []
        self.session_id = self.epoch = 0

    async def begin(self, count=COUNT, replicas=(BROKER, FOLLOWER)):
        for index in range(count):
            partition = self.lead(index, replicas=replicas)
            append(partition)
            for follower in replicas[1:]:
                partition.update_follower_fetch_state(
                    follower, fetch_offset=1, follower_start_offset=0
                )
            self.partitions.append(partition)
        response = await self.send(*(asked(index, 1, log_start_offset=0) for index in range(count)))
        self.session_id = response.session_id
        for _ in range(2):  # the first records the state of a follower
            await self.send()
        return self

    async def send(self, *changed, **fields):
        return await in_the_end(self.send_nowait(*changed, **fields))

    def send_nowait(self, *changed, forgotten=(), **fields):
        fetch_request = request(
            *changed,
            **{
                "session_id": self.session_id,
                "session_epoch": self.epoch,
                "replica_state": FetchRequest.ReplicaState(replica_id=self.replica_id),
                **fields,
            },
        )
        if forgotten:
            forgotten_topic = FetchRequest.ForgottenTopic(
                topic="events", partitions=list(forgotten)
            )
            fetch_request.forgotten_topics_data = [forgotten_topic]
        self.epoch += 1
        return self.fetched(fetch_request)

    async def wait(self, **fields):
        """Starts a fetch and lets it run until it waits."""
        delayed = self.send_nowait(max_wait_ms=60_000, **fields)
        waiting = self.hosting.background.start(in_the_end(delayed))
        await asyncio.sleep(0)
        return waiting

    def grow(self, index, *values):
        """Appends records that the follower has too, so consumers can read them."""
        partition = self.partitions[index]
        append(partition, *values)
        end = partition.log.log_end_offset
        partition.update_follower_fetch_state(FOLLOWER, fetch_offset=end, follower_start_offset=0)

    def watcher_counts(self):
        """Returns the number of watchers of each partition."""
        return [
            len(partition.fetch_watchers) + len(partition.follower_fetch_watchers)
            for partition in self.partitions
        ]


@pytest.fixture
def compared(monkeypatch):
    """Returns the numbers of the partitions that were compared."""
    is_unchanged, compared_numbers = FetchReader._is_unchanged, []

    def record_and_compare(reader, fetch_partition):
        compared_numbers.append(fetch_partition.partition_request.partition)
        return is_unchanged(reader, fetch_partition)

    monkeypatch.setattr(FetchReader, "_is_unchanged", record_and_compare)
    return compared_numbers


# Which partitions are read


@BOTH_REPLICA_IDS
async def test_only_the_named_partition_of_many_clean_ones_is_read(tmp_path, compared, replica_id):
    scene = await Scene(tmp_path, replica_id).begin(1_000)
    compared.clear()
    response = scene.send_nowait(asked(700, 0, log_start_offset=0))
    assert numbers(response) == [700]  # at once, like any small fetch
    assert compared == [700]


@BOTH_REPLICA_IDS
async def test_only_the_grown_partition_is_read(tmp_path, compared, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    compared.clear()
    scene.grow(3, b"a")
    assert told(scene.send_nowait()) == [(3, "NONE", [b"a"])]
    assert compared == [3]


@BOTH_REPLICA_IDS
async def test_partition_read_to_its_end_is_clean_again(tmp_path, compared, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    scene.grow(3, b"a")
    await scene.send()
    await scene.send(asked(3, 2, log_start_offset=0))
    await scene.send()
    compared.clear()
    assert told(await scene.send()) == []
    assert compared == []


@BOTH_REPLICA_IDS
async def test_partition_whose_records_did_not_fit_is_read_again(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    for index in (1, 2, 3):
        scene.grow(index, b"a")
    results = [told(await scene.send(max_bytes=1)) for _ in range(4)]
    assert [[number for number, _, values in result if values] for result in results] == [
        [1],
        [2],
        [3],
        [1],
    ]


async def test_waiting_fetch_that_wakes_reads_dirty_partitions_only(tmp_path, compared):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    waiting = await scene.wait()
    compared.clear()
    append(scene.partitions[2], b"a")
    assert told(await waiting) == [(2, "NONE", [b"a"])]
    assert compared == [2]


async def test_follower_gets_a_moved_high_watermark_with_its_next_fetch_and_is_not_woken(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin(replicas=(BROKER, FOLLOWER, OTHER))
    append(scene.partitions[2], b"a")
    await scene.send()
    await scene.send(asked(2, 2, log_start_offset=0))
    for _ in range(2):
        assert numbers(await scene.send()) == []
    waiting = await scene.wait()
    scene.partitions[2].update_follower_fetch_state(OTHER, fetch_offset=2, follower_start_offset=0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    (partition_response,) = lines(await scene.send())
    assert (partition_response.partition_index, partition_response.high_watermark) == (2, 2)


# Changes that wake no fetch


@BOTH_REPLICA_IDS
async def test_moved_start_offset_is_sent_after_the_next_full_scan(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    scene.partitions[1].log.maybe_increment_log_start_offset(1)
    assert numbers(await scene.send()) == []
    scene.now_ms += FULL_SCAN_INTERVAL_MS
    (partition_response,) = lines(await scene.send())
    assert (partition_response.partition_index, partition_response.log_start_offset) == (1, 1)


@BOTH_REPLICA_IDS
async def test_moved_start_offset_is_sent_at_the_timeout_of_a_waiting_fetch(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    waiting = scene.send_nowait(max_wait_ms=20)
    scene.partitions[1].log.maybe_increment_log_start_offset(1)
    scene.now_ms += FULL_SCAN_INTERVAL_MS
    (partition_response,) = lines(await waiting)
    assert (partition_response.partition_index, partition_response.log_start_offset) == (1, 1)


async def test_follower_state_of_this_session_is_restored_after_a_fetch_of_another(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    follower = scene.partitions[0].leader_state.followers[FOLLOWER]
    state_of_session = follower.follower_fetch_state
    assert state_of_session is not None
    scene.partitions[0].update_follower_fetch_state(
        FOLLOWER, fetch_offset=1, follower_start_offset=0
    )
    assert follower.follower_fetch_state is None
    scene.now_ms += FULL_SCAN_INTERVAL_MS
    await scene.send()
    assert follower.follower_fetch_state is state_of_session


# No change is missed


@BOTH_REPLICA_IDS
@pytest.mark.parametrize("inline_entries_max", [100, 0])
async def test_full_scan_in_time_slices_misses_nothing(
    tmp_path, monkeypatch, replica_id, inline_entries_max
):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    monkeypatch.setattr(fetch_reader, "INLINE_ENTRIES_MAX", inline_entries_max)
    scene = await Scene(tmp_path, replica_id).begin()
    for offset in range(1, 3 * COUNT):
        scene.now_ms += FULL_SCAN_INTERVAL_MS
        fetching = scene.hosting.background.start(
            in_the_end(scene.send_nowait(asked(0, offset, log_start_offset=0), max_wait_ms=60_000))
        )
        for _ in range(offset):
            await asyncio.sleep(0)
        scene.grow(0, b"a")
        async with asyncio.timeout(10):
            response = await fetching
        assert [values for number, _, values in told(response) if number == 0] == [[b"a"]]


@pytest.mark.parametrize("time_slice_s", [time_slice.TIME_SLICE_S, 0.0])
async def test_fetch_that_waits_for_more_is_woken_by_the_same_partition_again(
    tmp_path, monkeypatch, time_slice_s
):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", time_slice_s)
    size = append(scene.partitions[0], b"a")
    waiting = await scene.wait(min_bytes=4 * size)
    for steps in (1, 2, 3 * COUNT):
        for _ in range(steps):
            await asyncio.sleep(0)
        assert not waiting.done()
        append(scene.partitions[0], b"a")
    async with asyncio.timeout(10):
        assert told(await waiting) == [(0, "NONE", [b"a"] * 4)]


async def test_records_appended_while_many_dirty_partitions_are_read_are_not_missed(
    tmp_path, monkeypatch
):
    """The partitions are read in time slices; between these the first becomes dirty again."""
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
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


@BOTH_REPLICA_IDS
async def test_waiting_fetch_of_an_evicted_session_is_woken(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    waiting = await scene.wait()
    scene.sessions._close_session(scene.session_id)
    assert scene.watcher_counts() == [1] * COUNT
    scene.grow(4, b"a")
    assert told(await waiting) == [(4, "NONE", [b"a"])]
    assert scene.watcher_counts() == [0] * COUNT


async def test_two_fetches_of_a_session_are_both_woken(tmp_path):
    scene = await Scene(tmp_path, CONSUMER).begin()
    overtaken, waiting = await scene.wait(), await scene.wait()
    scene.grow(4, b"a")
    assert [(await fetch).error_code for fetch in (overtaken, waiting)] == [OUT_OF_ORDER, 0]
    # The rejected fetch may have dropped the responses that both had read.
    assert told(await scene.send()) == [(4, "NONE", [b"a"])]


# No watcher stays behind


@BOTH_REPLICA_IDS
async def test_watcher_of_a_session_is_woken_once(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    assert scene.watcher_counts() == [1] * COUNT
    scene.grow(2)
    assert scene.watcher_counts() == [1, 1, 0, 1, 1]


def close_session(scene):
    return scene.send_nowait(session_epoch=-1)


def replace_session(scene):
    return scene.send_nowait(session_epoch=0)


def forget_all(scene):
    return scene.send_nowait(forgotten=range(COUNT))


def evict(scene):
    scene.now_ms += 1_000_000
    new = scene.send_nowait(asked(COUNT), session_id=0, session_epoch=0)
    assert scene.sessions.evicted_count == 1
    return new


@BOTH_REPLICA_IDS
@pytest.mark.parametrize("end", [close_session, replace_session, forget_all, evict])
async def test_closed_session_has_no_watchers(tmp_path, replica_id, end):
    scene = await Scene(tmp_path, replica_id, slots=1).begin()
    assert scene.watcher_counts() == [1] * COUNT
    end(scene)
    assert scene.watcher_counts() == [0] * COUNT


async def test_session_with_too_many_unknown_partitions_is_closed_without_watchers(
    tmp_path, monkeypatch
):
    scene = await Scene(tmp_path, CONSUMER).begin()
    monkeypatch.setattr(fetch_session, "UNKNOWN_PARTITIONS_MAX", 2)
    scene.send_nowait(*(asked(COUNT + index) for index in range(3)))
    assert len(scene.sessions) == 0
    assert scene.watcher_counts() == [0] * COUNT


@BOTH_REPLICA_IDS
async def test_forgotten_partition_has_no_watcher(tmp_path, replica_id):
    scene = await Scene(tmp_path, replica_id).begin()
    scene.send_nowait(forgotten=[1, 3])
    assert scene.watcher_counts() == [1, 0, 1, 0, 1]


async def test_partition_forgotten_during_a_full_scan_gets_no_watcher(tmp_path, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    monkeypatch.setattr(fetch_reader, "INLINE_ENTRIES_MAX", 0)
    scene = await Scene(tmp_path, CONSUMER).begin()
    scene.now_ms += FULL_SCAN_INTERVAL_MS
    scanning = scene.hosting.background.start(in_the_end(scene.send_nowait()))
    await asyncio.sleep(0)
    forgetting = scene.hosting.background.start(in_the_end(scene.send_nowait(forgotten=[3])))
    await asyncio.wait([scanning, forgetting])
    assert scene.watcher_counts() == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
@pytest.mark.parametrize("steps", range(2 * COUNT))
async def test_session_closed_during_a_fetch_has_no_watchers_at_its_end(
    tmp_path, monkeypatch, steps, max_wait_ms
):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    monkeypatch.setattr(fetch_reader, "INLINE_ENTRIES_MAX", 0)
    scene = await Scene(tmp_path, CONSUMER).begin()
    scene.now_ms += FULL_SCAN_INTERVAL_MS
    delayed = scene.send_nowait(max_wait_ms=max_wait_ms)
    fetching = scene.hosting.background.start(in_the_end(delayed))
    for _ in range(steps):
        await asyncio.sleep(0)
    scene.sessions._close_session(scene.session_id)
    for _ in range(3 * COUNT):
        await asyncio.sleep(0)
    scene.grow(0, b"a")
    async with asyncio.timeout(10):
        response = await fetching
    assert told(response) == ([(0, "NONE", [b"a"])] if max_wait_ms else [])
    assert scene.watcher_counts() == [0] * COUNT


async def test_partition_is_waiting_only_while_a_fetch_is_registered():
    dirty_partitions = DirtyPartitions({}, FetchRequester(CONSUMER, -1, 0), now_ms=lambda: 0)
    fetch_partition, fetch = FetchPartition("events", ZERO_UUID, asked(0, 1)), object()
    assert not fetch_partition.is_waiting
    dirty_partitions.add(fetch_partition)
    assert not fetch_partition.is_waiting
    dirty_partitions.register(fetch)
    assert fetch_partition.is_waiting
    dirty_partitions.unregister(fetch)
    assert not fetch_partition.is_waiting


async def test_dirty_partitions_are_sent_in_the_order_of_the_session(tmp_path):
    scene = await Scene(tmp_path, FOLLOWER).begin()
    for index in (3, 1):
        append(scene.partitions[index])
    assert numbers(await scene.send()) == [1, 3]
