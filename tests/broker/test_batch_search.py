"""ListOffsets by timestamp into batches of many records, which another process reads."""

import inspect

import pytest

from odradek.broker import record_looks
from odradek.broker.handlers import list_offsets
from odradek.broker.record_looks import Looks, ManyRecords
from odradek.broker.record_reader import RECORDS_PER_TURN, RecordReader
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.log_lookup import FoundOffset, Sought
from odradek.storage.log_truncation import truncate
from tests.support.batches import batch_around
from tests.support.calls import called, in_the_end
from tests.support.hosted_partitions import Hosting
from tests.support.large_batches import MANY, large_batch
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, records_batch

LARGEST = -3
#: Ascending, but for the largest, which is the last but one.
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
ASKED = [LARGEST, 0, 1, 1000, 1001, 1007, 1707, 1000 + MANY - 2, 1000 + MANY, 5000, 9000]


@pytest.fixture(scope="module")
def reader():
    reader = RecordReader()
    yield reader
    reader.close()


class Changing:
    """A reader while which reads something else is done."""

    def __init__(self, reader, change):
        self._reader = reader
        self._change = change
        self.count = 0

    async def found(self, batch, sought):
        self.count += 1
        found = await self._reader.found(batch, sought)
        self._change(self.count)
        return found


def filled(tmp_path, *batches):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=5)
    for batch in batches:
        partition.append(bytearray(batch), acks=1, now_ms=NOW_MS)
    return hosting, partition


def listed(hosting, reader, timestamp):
    asked = Topic.Partition(partition_index=0, timestamp=timestamp)
    topics = [Topic(name="events", partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
    return list_offsets.handle(hosting.replicas, reader, lambda: NOW_MS, called(request, version=9))


def told(response):
    (line,) = response.topics[0].partitions
    if line.error_code:
        return ErrorCode.of(line.error_code).name
    return line.offset, line.timestamp, line.leader_epoch


@pytest.mark.parametrize("start", [0, 1, MANY - 1])
@pytest.mark.parametrize("name", LOGS)
async def test_what_is_found_is_what_is_found_in_one_go(name, start, tmp_path, reader, monkeypatch):
    hosting, partition = filled(tmp_path, *LOGS[name])
    partition.log.advance_start(start)
    found = [told(await in_the_end(listed(hosting, reader, asked))) for asked in ASKED]
    monkeypatch.setattr(record_looks, "RECORDS_PER_TURN", 2**40)
    assert found == [told(listed(hosting, None, asked)) for asked in ASKED]


async def test_only_what_has_many_records_is_waited_for(tmp_path, reader):
    hosting, _ = filled(tmp_path, SMALL, large_batch(timestamps=[6000]))
    assert not inspect.isawaitable(listed(hosting, reader, 5000))
    later = listed(hosting, reader, 5001)
    assert inspect.isawaitable(later)
    assert told(await in_the_end(later)) == (1, 6000, 5)


async def test_a_small_batch_that_holds_much_is_read_elsewhere(tmp_path, reader):
    swollen = records_batch(bytes(100_000), timestamp=6000, codec=Codec.ZSTD)
    hosting, _ = filled(tmp_path, swollen)
    later = listed(hosting, reader, 5000)
    assert inspect.isawaitable(later)
    assert told(await in_the_end(later)) == (0, 6000, 5)


async def test_a_wrapper_does_not_tell_how_many_it_holds_and_is_read_elsewhere(tmp_path, reader):
    hosting, partition = filled(tmp_path)
    inner = b"".join(message(1, b"v", offset=place, timestamp=10 + place) for place in range(3))
    old = bytearray(wrapper(1, inner, offset=2))
    old[0:8] = (2).to_bytes(8)
    partition.log.append_as_follower(old, now_ms=NOW_MS)
    partition.log.advance_high_watermark(3)
    later = listed(hosting, reader, 0)
    assert inspect.isawaitable(later)
    assert told(await in_the_end(later)) == (0, 10, -1)


async def test_partitions_that_have_many_records_only_together_are_looked_at_in_turns(
    tmp_path, reader
):
    hosting = Hosting(tmp_path)
    for index in (0, 1):
        partition = hosting.lead(partition=index, epoch=5)
        partition.append(large_batch(600, timestamps=[index + 1]), acks=1, now_ms=NOW_MS)
    asked = [Topic.Partition(partition_index=index, timestamp=0) for index in (0, 1)]
    topics = [Topic(name="events", partitions=asked)]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
    later = list_offsets.handle(hosting.replicas, reader, lambda: NOW_MS, called(request))
    assert inspect.isawaitable(later)
    lines = (await in_the_end(later)).topics[0].partitions
    assert [(line.offset, line.timestamp) for line in lines] == [(0, 1), (0, 2)]


async def test_records_that_were_deleted_meanwhile_are_not_found(tmp_path, reader):
    hosting, partition = filled(tmp_path, large_batch(timestamps=[1000]), SMALL)
    deleting = Changing(reader, lambda count: partition.log.advance_start(700))
    assert told(await in_the_end(listed(hosting, deleting, 500))) == (700, 1000, 5)
    assert deleting.count == 2


async def test_a_log_that_was_cut_and_written_anew_meanwhile_is_looked_at_anew(tmp_path, reader):
    hosting, partition = filled(tmp_path, large_batch(timestamps=[1000]))

    def rewrite(count):
        if count == 1:
            truncate(partition.log, 0, now_ms=NOW_MS)
            partition.append(large_batch(timestamps=[900, 2000]), acks=1, now_ms=NOW_MS)

    rewriting = Changing(reader, rewrite)
    assert told(await in_the_end(listed(hosting, rewriting, 950))) == (1, 2000, 5)


async def test_who_does_not_lead_any_more_says_so(tmp_path, reader):
    hosting, partition = filled(tmp_path, large_batch(timestamps=[1000]))
    lost = Changing(reader, lambda count: partition.follow(2, leader_epoch=6, partition_epoch=6))
    assert told(await in_the_end(listed(hosting, lost, 0))) == "NOT_LEADER_OR_FOLLOWER"


async def test_a_lookup_that_nobody_could_do_may_be_asked_for_again(tmp_path):
    class Dying:
        async def found(self, batch, sought):
            raise RequestTimedOut("the process that reads records died")

    hosting, _ = filled(tmp_path, large_batch(timestamps=[1000]))
    assert told(await in_the_end(listed(hosting, Dying(), 0))) == "REQUEST_TIMED_OUT"


async def test_what_was_learned_of_a_batch_is_known_of_no_other(reader):
    looks = Looks()
    one, other = (RecordBatch(large_batch(timestamps=[time])) for time in (1000, 1001))
    sought = Sought(0, start=0)
    await looks.learn(ManyRecords(one, sought), reader)
    assert looks(one, sought) == FoundOffset(0, 1000, -1)
    for batch, wanted in ((other, sought), (one, Sought(0, start=1)), (one, Sought(None, start=0))):
        with pytest.raises(ManyRecords):
            looks(batch, wanted)


def test_a_turn_is_for_so_many_records_and_no_more():
    looks = Looks()
    half = RecordBatch(large_batch(RECORDS_PER_TURN // 2, timestamps=[1]))
    for _ in range(2):
        looks.begin_turn()
        for _ in range(2):
            assert looks(half, Sought(1, start=0)) == FoundOffset(0, 1, -1)
        with pytest.raises(ManyRecords):
            looks(half, Sought(1, start=0))
