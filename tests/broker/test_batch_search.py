"""ListOffsets by timestamp in batches of many records, which another process reads."""

import inspect

import pytest

from odradek.broker import batch_search
from odradek.broker.batch_search import BatchSearch, SearchTooLarge
from odradek.broker.handlers import list_offsets
from odradek.broker.record_inspector import INLINE_RECORDS_MAX, RecordInspector
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.log_truncation import truncate_to
from odradek.storage.timestamp_lookup import TimestampAndOffset, TimestampQuery
from tests.support.batches import batch_around
from tests.support.calls import called, in_the_end
from tests.support.hosted_partitions import Hosting
from tests.support.large_batches import MANY, large_batch
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, records_batch

LARGEST = -3
#: Ascending except the last. The largest is the last but one.
TIMES = [*range(1000, 1000 + MANY - 1), 1]
SMALL = records_batch(b"a", timestamp=5000)
Topic = ListOffsetsRequest.Topic

LOGS = {
    "a large batch": [large_batch(timestamps=TIMES, codec=Codec.ZSTD)],
    "a small one before": [records_batch(b"a", timestamp=1100), large_batch(timestamps=TIMES)],
    "the largest elsewhere": [large_batch(timestamps=TIMES), SMALL, large_batch(timestamps=TIMES)],
    "no timestamps": [large_batch(timestamps=[-1])],
    "several": [large_batch(timestamps=[start, start + 7]) for start in (1000, 1700, 1003)],
    "many small ones": [large_batch(600, timestamps=TIMES[start:600]) for start in (0, 300, 500)],
    "none of its codec": [
        batch_around(b"no gzip", count=MANY, last_delta=MANY - 1, codec=Codec.GZIP)
    ],
}
TIMESTAMPS = [LARGEST, 0, 1, 1000, 1001, 1007, 1707, 1000 + MANY - 2, 1000 + MANY, 5000, 9000]


@pytest.fixture(scope="module")
def reader():
    reader = RecordInspector()
    yield reader
    reader.close()


class ChangingReader:
    """Runs a callback after each lookup of a reader."""

    def __init__(self, reader, change):
        self._reader = reader
        self._change = change
        self.count = 0

    async def find_offset(self, batch, query):
        self.count += 1
        result = await self._reader.find_offset(batch, query)
        self._change(self.count)
        return result


def partition_with(tmp_path, *batches):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=5)
    for batch in batches:
        partition.append(bytearray(batch), acks=1, now_ms=NOW_MS)
    return hosting, partition


def list_offset(hosting, reader, timestamp):
    partition = Topic.Partition(partition_index=0, timestamp=timestamp)
    topics = [Topic(name="events", partitions=[partition])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
    return list_offsets.handle(hosting.replicas, reader, lambda: NOW_MS, called(request, version=9))


def result_of(response):
    (partition_response,) = response.topics[0].partitions
    if partition_response.error_code:
        return ErrorCode.for_code(partition_response.error_code).name
    return partition_response.offset, partition_response.timestamp, partition_response.leader_epoch


@pytest.mark.parametrize("start", [0, 1, MANY - 1])
@pytest.mark.parametrize("name", LOGS)
async def test_result_is_the_same_as_that_of_an_inline_lookup(
    name, start, tmp_path, reader, monkeypatch
):
    hosting, partition = partition_with(tmp_path, *LOGS[name])
    partition.log.maybe_increment_log_start_offset(start)
    results = [
        result_of(await in_the_end(list_offset(hosting, reader, timestamp)))
        for timestamp in TIMESTAMPS
    ]
    monkeypatch.setattr(batch_search, "INLINE_RECORDS_MAX", 2**40)
    assert results == [result_of(list_offset(hosting, None, timestamp)) for timestamp in TIMESTAMPS]


async def test_only_a_batch_of_many_records_is_read_by_the_worker(tmp_path, reader):
    hosting, _ = partition_with(tmp_path, SMALL, large_batch(timestamps=[6000]))
    assert not inspect.isawaitable(list_offset(hosting, reader, 5000))
    delayed = list_offset(hosting, reader, 5001)
    assert inspect.isawaitable(delayed)
    assert result_of(await in_the_end(delayed)) == (1, 6000, 5)


async def test_small_batch_with_large_uncompressed_size_is_read_by_the_worker(tmp_path, reader):
    compressed = records_batch(bytes(100_000), timestamp=6000, codec=Codec.ZSTD)
    hosting, _ = partition_with(tmp_path, compressed)
    delayed = list_offset(hosting, reader, 5000)
    assert inspect.isawaitable(delayed)
    assert result_of(await in_the_end(delayed)) == (0, 6000, 5)


async def test_wrapper_message_of_unknown_count_is_read_by_the_worker(tmp_path, reader):
    hosting, partition = partition_with(tmp_path)
    inner = b"".join(message(1, b"v", offset=offset, timestamp=10 + offset) for offset in range(3))
    old = bytearray(wrapper(1, inner, offset=2))
    old[0:8] = (2).to_bytes(8)
    partition.log.append_as_follower(old, now_ms=NOW_MS)
    partition.log.update_high_watermark(3)
    delayed = list_offset(hosting, reader, 0)
    assert inspect.isawaitable(delayed)
    assert result_of(await in_the_end(delayed)) == (0, 10, -1)


async def test_small_batches_of_several_partitions_are_read_in_time_slices(tmp_path, reader):
    hosting = Hosting(tmp_path)
    for index in (0, 1):
        partition = hosting.lead(partition=index, epoch=5)
        partition.append(large_batch(600, timestamps=[index + 1]), acks=1, now_ms=NOW_MS)
    partitions = [Topic.Partition(partition_index=index, timestamp=0) for index in (0, 1)]
    topics = [Topic(name="events", partitions=partitions)]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
    delayed = list_offsets.handle(hosting.replicas, reader, lambda: NOW_MS, called(request))
    assert inspect.isawaitable(delayed)
    partition_responses = (await in_the_end(delayed)).topics[0].partitions
    assert [(response.offset, response.timestamp) for response in partition_responses] == [
        (0, 1),
        (0, 2),
    ]


async def test_records_deleted_during_the_lookup_are_not_found(tmp_path, reader):
    hosting, partition = partition_with(tmp_path, large_batch(timestamps=[1000]), SMALL)
    deleting = ChangingReader(
        reader, lambda count: partition.log.maybe_increment_log_start_offset(700)
    )
    assert result_of(await in_the_end(list_offset(hosting, deleting, 500))) == (700, 1000, 5)
    assert deleting.count == 2


async def test_log_truncated_and_rewritten_during_the_lookup_is_searched_again(tmp_path, reader):
    hosting, partition = partition_with(tmp_path, large_batch(timestamps=[1000]))

    def rewrite(count):
        if count == 1:
            truncate_to(partition.log, 0, now_ms=NOW_MS)
            partition.append(large_batch(timestamps=[900, 2000]), acks=1, now_ms=NOW_MS)

    rewriting = ChangingReader(reader, rewrite)
    assert result_of(await in_the_end(list_offset(hosting, rewriting, 950))) == (1, 2000, 5)


async def test_leadership_lost_during_the_lookup_is_an_error(tmp_path, reader):
    hosting, partition = partition_with(tmp_path, large_batch(timestamps=[1000]))
    lost = ChangingReader(
        reader, lambda count: partition.make_follower(2, leader_epoch=6, partition_epoch=6)
    )
    assert result_of(await in_the_end(list_offset(hosting, lost, 0))) == "NOT_LEADER_OR_FOLLOWER"


async def test_lookup_fails_with_a_retriable_error_if_the_worker_dies(tmp_path):
    class DyingReader:
        async def find_offset(self, batch, query):
            raise RequestTimedOut("the record inspector process died")

    hosting, _ = partition_with(tmp_path, large_batch(timestamps=[1000]))
    assert (
        result_of(await in_the_end(list_offset(hosting, DyingReader(), 0))) == "REQUEST_TIMED_OUT"
    )


async def test_cached_result_applies_to_the_same_batch_and_query_only(reader):
    search = BatchSearch()
    one, other = (RecordBatch(large_batch(timestamps=[time])) for time in (1000, 1001))
    query = TimestampQuery(0, start_offset=0)
    await search.search_in_worker(SearchTooLarge(one, query), reader)
    assert search(one, query) == TimestampAndOffset(0, 1000, -1)
    for batch, other_query in (
        (other, query),
        (one, TimestampQuery(0, start_offset=1)),
        (one, TimestampQuery(None, start_offset=0)),
    ):
        with pytest.raises(SearchTooLarge):
            search(batch, other_query)


def test_time_slice_has_a_budget_of_records():
    search = BatchSearch()
    half = RecordBatch(large_batch(INLINE_RECORDS_MAX // 2, timestamps=[1]))
    for _ in range(2):
        search.reset_budget()
        for _ in range(2):
            assert search(half, TimestampQuery(1, start_offset=0)) == TimestampAndOffset(0, 1, -1)
        with pytest.raises(SearchTooLarge):
            search(half, TimestampQuery(1, start_offset=0))
