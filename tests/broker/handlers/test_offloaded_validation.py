"""Produce with batches of many records, which another process reads before they are appended."""

import asyncio
import inspect
import random

import pytest

from odradek.broker.call import Disconnect
from odradek.broker.handlers import produce, unread_records
from odradek.broker.record_reader import RecordReader
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage.paths import Content
from odradek.storage.settings import TopicSettings
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.batches import batch_around, batch_of
from tests.support.calls import called, in_the_end
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.large_batches import MANY, large_batch
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, records_batch

OTHER = 2
LATER_MS = 5000
COMPACTED = {"cleanup_policy": ("compact",)}
BOUNDED = {"message_timestamp_before_max_ms": 1000}
LZ4 = {"compression_type": "lz4"}
APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}
ZSTD = large_batch(codec=Codec.ZSTD)
OLD = message(1, b"v", key=b"k", timestamp=NOW_MS)
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def keyless(*places):
    return large_batch(key=lambda place: None if place in places else b"k", codec=Codec.GZIP)


def flipped(batch):
    batch = bytearray(batch)
    batch[-1] ^= 1
    return batch


def lying(batch, *, count):
    """Its header tells of so many records."""
    codec = RecordBatch(batch).codec
    return batch_around(bytes(batch[61:]), count=count, last_delta=count - 1, codec=codec)


def swollen(codec):
    """Few bytes, but for snappy, that hold 100 KB."""
    builder = BatchBuilder(BatchFields(codec=codec))
    builder.append(timestamp=NOW_MS, key=b"k", value=bytes(100_000))
    batch = builder.build()
    assert len(batch) < 8000
    return batch


#: Settings, records, and the version of the request.
SETS = {
    "compacted": (COMPACTED, ZSTD, 9),
    "compacted, not compressed": (COMPACTED, large_batch(), 9),
    "compacted, no key": (COMPACTED, keyless(3, 1400), 9),
    "compacted, no key anywhere": (COMPACTED, keyless(*range(MANY)), 9),
    "compacted, damaged": (COMPACTED, flipped(ZSTD), 9),
    "compacted, records missing": (COMPACTED, lying(ZSTD, count=MANY + 1), 9),
    "compacted, records too many": (COMPACTED, lying(ZSTD, count=MANY - 1), 9),
    "compacted, no block of its codec": (
        COMPACTED,
        batch_around(b"no gzip", count=MANY, last_delta=MANY - 1, codec=Codec.GZIP),
        9,
    ),
    "compacted, two batches": (COMPACTED, ZSTD + records_batch(b"a"), 9),
    "compacted, part of another": (COMPACTED, ZSTD + records_batch(b"a")[:40], 9),
    "compacted, sequence out of order": (
        COMPACTED,
        large_batch(base_sequence=5, **PRODUCER),
        9,
    ),
    "bounds": (BOUNDED, large_batch(timestamps=[NOW_MS, NOW_MS - 1000]), 9),
    "bounds, too old": (BOUNDED, large_batch(timestamps=[NOW_MS, NOW_MS - 1001]), 9),
    "bounds, too old and no key": (
        BOUNDED | COMPACTED,
        large_batch(timestamps=[0, NOW_MS], key=lambda place: b"k" if place % 3 else None),
        9,
    ),
    "another codec": (LZ4, ZSTD, 9),
    "another codec, with a producer": (LZ4, large_batch(base_sequence=0, **PRODUCER), 9),
    "another codec, below the smallest timestamp": (
        LZ4,
        lying(large_batch(timestamps=[1, 0]), count=MANY - 1),
        9,
    ),
    "another codec, too large once rewritten": (
        {"compression_type": "uncompressed", "max_message_bytes": 5000},
        ZSTD,
        9,
    ),
    "another codec, larger than a segment": (
        {"compression_type": "uncompressed", "segment_bytes": 5000},
        ZSTD,
        9,
    ),
    "another codec, no keys": (LZ4 | COMPACTED, keyless(7), 9),
    "time of append": (APPEND_TIME | COMPACTED, ZSTD, 9),
    "time of append, another codec": (APPEND_TIME | LZ4, ZSTD, 9),
    "time of append, claimed": (COMPACTED, large_batch(append_time_ms=5), 9),
    "old messages": ({}, OLD * MANY, 2),
    "old messages, one damaged": ({}, OLD * MANY + flipped(OLD), 2),
    "old messages, too new for them": ({}, OLD * MANY, 9),
    "old messages, compacted": (COMPACTED, OLD * MANY + message(1, b"v"), 2),
    "a wrapper": (BOUNDED, wrapper(1, OLD * MANY), 2),
    "a wrapper around damage": ({}, wrapper(1, OLD * MANY + flipped(OLD)), 2),
    "a wrapper behind a message": (COMPACTED, OLD + wrapper(1, OLD * MANY), 2),
    "nothing to read": ({}, ZSTD, 9),
    **{
        f"compacted, small, holding much, {codec.name}": (COMPACTED, swollen(codec), 9)
        for codec in Codec
        if codec is not Codec.NONE
    },
    "compacted, small": (COMPACTED, records_batch(b"a", key=b"k", codec=Codec.GZIP), 9),
}
#: What nobody has to read.
AT_ONCE = {
    "nothing to read",
    "old messages, too new for them",
    "compacted, two batches",
    "compacted, small",
}


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

    async def checked(self, received, rules, *, now_ms):
        self.count += 1
        checked = await self._reader.checked(received, rules, now_ms=now_ms)
        self._change(self.count)
        return checked


def request(*batches, acks=1):
    entries = [
        ProduceRequest.Topic.Partition(index=index, records=memoryview(bytearray(batch)))
        for index, batch in enumerate(batches)
    ]
    topic = ProduceRequest.Topic(name="events", partition_data=entries)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def produced(hosting, asked, reader, *, version=9, now_ms=lambda: NOW_MS):
    call = called(asked, version=version)
    return produce.handle(hosting.replicas, hosting.known, reader, NOBODY_ASKED, now_ms, call)


def error_of(response):
    return ErrorCode.of(response.responses[0].partition_responses[0].error_code).name


def stored(partition):
    return partition.log.segments.active.path(Content.BATCHES).read_bytes()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("name", SETS)
async def test_the_answer_and_the_log_are_those_of_the_direct_way(
    name, acks, tmp_path, reader, monkeypatch
):
    settings, records, version = SETS[name]
    here, there = Hosting(tmp_path / "here", **settings), Hosting(tmp_path / "there", **settings)
    partitions = here.lead(), there.lead()
    later = produced(here, request(records, acks=acks), reader, version=version)
    assert inspect.isawaitable(later) == (name not in AT_ONCE)
    monkeypatch.setattr(unread_records, "RECORDS_PER_TURN", 2**40)
    directly = produced(there, request(records, acks=acks), None, version=version)
    assert await in_the_end(later) == directly
    assert stored(partitions[0]) == stored(partitions[1])


@pytest.mark.parametrize("name", [name for name in SETS if name not in AT_ONCE])
async def test_acks_zero_is_answered_by_nothing_or_the_end_of_the_connection(
    name, tmp_path, reader, monkeypatch
):
    settings, records, version = SETS[name]
    here, there = Hosting(tmp_path / "here", **settings), Hosting(tmp_path / "there", **settings)
    partitions = here.lead(), there.lead()
    outcome = await how_it_ends(produced(here, request(records, acks=0), reader, version=version))
    monkeypatch.setattr(unread_records, "RECORDS_PER_TURN", 2**40)
    try:
        expected = produced(there, request(records, acks=0), None, version=version)
    except Disconnect as end:
        expected = str(end)
    assert outcome == expected
    assert stored(partitions[0]) == stored(partitions[1])


async def how_it_ends(answered):
    try:
        return await in_the_end(answered)
    except Disconnect as end:
        return str(end)


async def test_batches_that_have_many_records_only_together_are_read_elsewhere(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    for partition in (0, 1, 2):
        hosting.lead(partition=partition)
    half = large_batch(MANY // 2)
    assert not inspect.isawaitable(produced(hosting, request(half), reader))
    later = produced(hosting, request(half, records_batch(b"no key"), half), reader)
    response = await in_the_end(later)
    lines = response.responses[0].partition_responses
    assert [(line.error_code, line.base_offset) for line in lines] == [
        (0, MANY // 2),
        (ErrorCode.INVALID_RECORD.code, -1),
        (0, 0),
    ]


@pytest.mark.parametrize(
    ("settings", "codec", "is_read_elsewhere"),
    [(LZ4, Codec.NONE, True), (COMPACTED, Codec.GZIP, True), (COMPACTED, Codec.NONE, False)],
)
async def test_bytes_to_be_packed_or_unpacked_count_as_records(
    settings, codec, is_read_elsewhere, tmp_path, reader
):
    hosting = Hosting(tmp_path, **settings)
    hosting.lead()
    value = random.Random(1).randbytes(100_000)  # which no codec makes smaller
    batch = batch_of(Record(0, NOW_MS, b"k", value), codec=codec)
    answered = produced(hosting, request(batch), reader)
    assert inspect.isawaitable(answered) == is_read_elsewhere
    assert error_of(await in_the_end(answered)) == "NONE"


async def test_a_count_below_none_does_not_hide_those_of_others(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead(partition=0)
    hosting.lead(partition=1)
    hidden = batch_around(b"", count=-(2**31), last_delta=0)
    later = produced(hosting, request(hidden, ZSTD), reader)
    assert inspect.isawaitable(later)
    lines = (await in_the_end(later)).responses[0].partition_responses
    assert [line.base_offset for line in lines] == [-1, 0]


async def test_many_partitions_with_many_records_are_appended_to_in_order(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    asked = request(ZSTD)
    (entry,) = asked.topic_data[0].partition_data
    small = bytearray(large_batch(1))
    asked.topic_data[0].partition_data = [
        *(ProduceRequest.Topic.Partition(index=0, records=memoryview(small[:])) for _ in range(60)),
        entry,
        *(ProduceRequest.Topic.Partition(index=0, records=memoryview(small[:])) for _ in range(60)),
    ]
    response = await in_the_end(produced(hosting, asked, reader))
    offsets = [line.base_offset for line in response.responses[0].partition_responses]
    assert offsets == [*range(61), *range(60 + MANY, 120 + MANY)]


async def test_the_time_of_append_is_the_one_after_reading(tmp_path, reader):
    hosting = Hosting(tmp_path, **APPEND_TIME, **COMPACTED)
    partition = hosting.lead()
    clock = iter([NOW_MS, NOW_MS, NOW_MS + LATER_MS])
    later = produced(hosting, request(ZSTD), reader, now_ms=lambda: next(clock))
    (line,) = (await in_the_end(later)).responses[0].partition_responses
    assert line.log_append_time_ms == NOW_MS + LATER_MS
    assert RecordBatch(stored(partition)).max_timestamp == NOW_MS + LATER_MS


#: Settings before and after, records, and what becomes of them: an error, or the codec.
CHANGES = [
    (COMPACTED, {}, keyless(3), Codec.GZIP),
    (LZ4, COMPACTED, keyless(3), "INVALID_RECORD"),
    (LZ4, {}, ZSTD, Codec.ZSTD),
    (LZ4, {"compression_type": "gzip"}, ZSTD, Codec.GZIP),
    (LZ4, LZ4 | {"max_message_bytes": 10}, ZSTD, "MESSAGE_TOO_LARGE"),
    (LZ4, LZ4 | {"min_insync_replicas": 1}, ZSTD, Codec.LZ4),
]


@pytest.mark.parametrize("is_done_once", [True, False])
@pytest.mark.parametrize("change", CHANGES)
async def test_settings_that_changed_meanwhile_are_those_that_count(
    change, is_done_once, tmp_path, reader
):
    before, after, records, expected = change
    hosting = Hosting(tmp_path, **before)
    partition = hosting.lead()
    initial, other = partition.log.settings, TopicSettings(**after)

    def configure(count):
        """Each time anew, to and fro, unless it is done once."""
        partition.log.configure(other if is_done_once or count % 2 else initial)

    changing = Changing(reader, configure)
    response = await in_the_end(produced(hosting, request(records), changing))
    if isinstance(expected, Codec):
        assert error_of(response) == "NONE"
        assert RecordBatch(stored(partition)).codec is expected
    else:
        assert error_of(response) == expected
    assert changing.count <= unread_records.CHECKS_MAX


async def test_who_does_not_lead_any_more_appends_nothing(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    lost = Changing(
        reader, lambda count: partition.follow(OTHER, leader_epoch=1, partition_epoch=1)
    )
    assert error_of(await in_the_end(produced(hosting, request(ZSTD), lost))) == (
        "NOT_LEADER_OR_FOLLOWER"
    )
    assert partition.log.end_offset == 0
    again = produced(hosting, request(ZSTD), reader)
    assert error_of(again) == "NOT_LEADER_OR_FOLLOWER"


async def test_a_batch_that_nobody_could_read_may_be_sent_again(tmp_path):
    class Dying:
        async def checked(self, received, rules, *, now_ms):
            raise RequestTimedOut("the process that reads records died")

    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    answer = await in_the_end(produced(hosting, request(ZSTD), Dying()))
    assert error_of(answer) == "REQUEST_TIMED_OUT"
    assert partition.log.end_offset == 0


async def test_others_append_while_records_are_read_and_only_acks_all_waits_for_followers(
    tmp_path, reader
):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    asked = request(ZSTD, acks=-1)
    asked.timeout_ms = 0
    reading = hosting.background.start(in_the_end(produced(hosting, asked, reader)))
    await asyncio.sleep(0)
    assert error_of(produced(hosting, request(large_batch(1)), reader)) == "NONE"
    assert partition.log.end_offset == 1
    assert error_of(await reading) == "REQUEST_TIMED_OUT"
    assert partition.log.end_offset == 1 + MANY
