"""Produce of batches with many records, which the record inspector validates before the append."""

import asyncio
import inspect
import random

import pytest

from odradek.broker.handlers import offloaded_validation, produce
from odradek.broker.record_inspector import RecordInspector
from odradek.broker.request import Disconnect
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage.paths import LogFileType
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


def keyless(*indexes):
    return large_batch(key=lambda index: None if index in indexes else b"k", codec=Codec.GZIP)


def damaged(batch):
    batch = bytearray(batch)
    batch[-1] ^= 1
    return batch


def with_record_count(batch, *, count):
    """Return the batch with a header that claims ``count`` records."""
    codec = RecordBatch(batch).codec
    return batch_around(bytes(batch[61:]), count=count, last_delta=count - 1, codec=codec)


def highly_compressed(codec):
    """Return a small batch that decompresses to 100 KB; snappy needs the most bytes."""
    builder = BatchBuilder(BatchFields(codec=codec))
    builder.append(timestamp=NOW_MS, key=b"k", value=bytes(100_000))
    batch = builder.build()
    assert len(batch) < 8000
    return batch


#: Settings, records, and the version of the request.
CASES = {
    "compacted": (COMPACTED, ZSTD, 9),
    "compacted, not compressed": (COMPACTED, large_batch(), 9),
    "compacted, no key": (COMPACTED, keyless(3, 1400), 9),
    "compacted, no key anywhere": (COMPACTED, keyless(*range(MANY)), 9),
    "compacted, damaged": (COMPACTED, damaged(ZSTD), 9),
    "compacted, records missing": (COMPACTED, with_record_count(ZSTD, count=MANY + 1), 9),
    "compacted, records too many": (COMPACTED, with_record_count(ZSTD, count=MANY - 1), 9),
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
        large_batch(timestamps=[0, NOW_MS], key=lambda index: b"k" if index % 3 else None),
        9,
    ),
    "another codec": (LZ4, ZSTD, 9),
    "another codec, with a producer": (LZ4, large_batch(base_sequence=0, **PRODUCER), 9),
    "another codec, below the smallest timestamp": (
        LZ4,
        with_record_count(large_batch(timestamps=[1, 0]), count=MANY - 1),
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
    "old messages, one damaged": ({}, OLD * MANY + damaged(OLD), 2),
    "old messages, too new for them": ({}, OLD * MANY, 9),
    "old messages, compacted": (COMPACTED, OLD * MANY + message(1, b"v"), 2),
    "a wrapper": (BOUNDED, wrapper(1, OLD * MANY), 2),
    "a wrapper around damage": ({}, wrapper(1, OLD * MANY + damaged(OLD)), 2),
    "a wrapper behind a message": (COMPACTED, OLD + wrapper(1, OLD * MANY), 2),
    "nothing to read": ({}, ZSTD, 9),
    **{
        f"compacted, small, holding much, {codec.name}": (COMPACTED, highly_compressed(codec), 9)
        for codec in Codec
        if codec is not Codec.NONE
    },
    "compacted, small": (COMPACTED, records_batch(b"a", key=b"k", codec=Codec.GZIP), 9),
}
#: Cases that the broker validates without the record inspector.
VALIDATED_INLINE = {
    "nothing to read",
    "old messages, too new for them",
    "compacted, two batches",
    "compacted, small",
}


@pytest.fixture(scope="module")
def reader():
    reader = RecordInspector()
    yield reader
    reader.close()


class ChangingInspector:
    """A record inspector that calls ``change`` after each validation."""

    def __init__(self, reader, change):
        self._reader = reader
        self._change = change
        self.count = 0

    async def validate(self, records, rules, *, now_ms):
        self.count += 1
        checked = await self._reader.validate(records, rules, now_ms=now_ms)
        self._change(self.count)
        return checked


def build_request(*batches, acks=1):
    entries = [
        ProduceRequest.Topic.Partition(index=index, records=memoryview(bytearray(batch)))
        for index, batch in enumerate(batches)
    ]
    topic = ProduceRequest.Topic(name="events", partition_data=entries)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def send(hosting, body, reader, *, version=9, now_ms=lambda: NOW_MS):
    request = called(body, version=version)
    return produce.handle(hosting.replicas, hosting.known, reader, NOBODY_ASKED, now_ms, request)


def error_of(response):
    return ErrorCode.for_code(response.responses[0].partition_responses[0].error_code).name


def stored(partition):
    return partition.log.segments.active.path(LogFileType.LOG).read_bytes()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("name", CASES)
async def test_response_and_log_are_the_same_as_with_inline_validation(
    name, acks, tmp_path, reader, monkeypatch
):
    settings, records, version = CASES[name]
    offloaded, inline = (
        Hosting(tmp_path / "here", **settings),
        Hosting(tmp_path / "there", **settings),
    )
    partitions = offloaded.lead(), inline.lead()
    pending = send(offloaded, build_request(records, acks=acks), reader, version=version)
    assert inspect.isawaitable(pending) == (name not in VALIDATED_INLINE)
    monkeypatch.setattr(offloaded_validation, "INLINE_RECORDS_MAX", 2**40)
    expected = send(inline, build_request(records, acks=acks), None, version=version)
    assert await in_the_end(pending) == expected
    assert stored(partitions[0]) == stored(partitions[1])


@pytest.mark.parametrize("name", [name for name in CASES if name not in VALIDATED_INLINE])
async def test_acks_0_gets_no_response_or_closes_the_connection(
    name, tmp_path, reader, monkeypatch
):
    settings, records, version = CASES[name]
    offloaded, inline = (
        Hosting(tmp_path / "here", **settings),
        Hosting(tmp_path / "there", **settings),
    )
    partitions = offloaded.lead(), inline.lead()
    outcome = await outcome_of(
        send(offloaded, build_request(records, acks=0), reader, version=version)
    )
    monkeypatch.setattr(offloaded_validation, "INLINE_RECORDS_MAX", 2**40)
    try:
        expected = send(inline, build_request(records, acks=0), None, version=version)
    except Disconnect as disconnect:
        expected = str(disconnect)
    assert outcome == expected
    assert stored(partitions[0]) == stored(partitions[1])


async def outcome_of(pending):
    try:
        return await in_the_end(pending)
    except Disconnect as disconnect:
        return str(disconnect)


async def test_batches_with_many_records_in_total_are_offloaded(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    for partition in (0, 1, 2):
        hosting.lead(partition=partition)
    half = large_batch(MANY // 2)
    assert not inspect.isawaitable(send(hosting, build_request(half), reader))
    pending = send(hosting, build_request(half, records_batch(b"no key"), half), reader)
    response = await in_the_end(pending)
    partitions = response.responses[0].partition_responses
    assert [(partition.error_code, partition.base_offset) for partition in partitions] == [
        (0, MANY // 2),
        (ErrorCode.INVALID_RECORD.code, -1),
        (0, 0),
    ]


@pytest.mark.parametrize(
    ("settings", "codec", "is_offloaded"),
    [(LZ4, Codec.NONE, True), (COMPACTED, Codec.GZIP, True), (COMPACTED, Codec.NONE, False)],
)
async def test_bytes_to_compress_or_decompress_count_as_records(
    settings, codec, is_offloaded, tmp_path, reader
):
    hosting = Hosting(tmp_path, **settings)
    hosting.lead()
    value = random.Random(1).randbytes(100_000)  # incompressible
    batch = batch_of(Record(0, NOW_MS, b"k", value), codec=codec)
    pending = send(hosting, build_request(batch), reader)
    assert inspect.isawaitable(pending) == is_offloaded
    assert error_of(await in_the_end(pending)) == "NONE"


async def test_negative_record_count_does_not_hide_the_records_of_others(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead(partition=0)
    hosting.lead(partition=1)
    hidden = batch_around(b"", count=-(2**31), last_delta=0)
    pending = send(hosting, build_request(hidden, ZSTD), reader)
    assert inspect.isawaitable(pending)
    partitions = (await in_the_end(pending)).responses[0].partition_responses
    assert [partition.base_offset for partition in partitions] == [-1, 0]


async def test_many_partitions_with_many_records_are_appended_in_order(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    body = build_request(ZSTD)
    (entry,) = body.topic_data[0].partition_data
    small = bytearray(large_batch(1))
    body.topic_data[0].partition_data = [
        *(ProduceRequest.Topic.Partition(index=0, records=memoryview(small[:])) for _ in range(60)),
        entry,
        *(ProduceRequest.Topic.Partition(index=0, records=memoryview(small[:])) for _ in range(60)),
    ]
    response = await in_the_end(send(hosting, body, reader))
    offsets = [partition.base_offset for partition in response.responses[0].partition_responses]
    assert offsets == [*range(61), *range(60 + MANY, 120 + MANY)]


async def test_log_append_time_is_the_time_after_validation(tmp_path, reader):
    hosting = Hosting(tmp_path, **APPEND_TIME, **COMPACTED)
    partition = hosting.lead()
    clock = iter([NOW_MS, NOW_MS, NOW_MS + LATER_MS])
    pending = send(hosting, build_request(ZSTD), reader, now_ms=lambda: next(clock))
    (partition_response,) = (await in_the_end(pending)).responses[0].partition_responses
    assert partition_response.log_append_time_ms == NOW_MS + LATER_MS
    assert RecordBatch(stored(partition)).max_timestamp == NOW_MS + LATER_MS


#: Settings before and after, records, and the expected error or codec.
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
async def test_settings_that_changed_during_validation_apply(
    change, is_done_once, tmp_path, reader
):
    before, after, records, expected = change
    hosting = Hosting(tmp_path, **before)
    partition = hosting.lead()
    initial, other = partition.log.settings, TopicSettings(**after)

    def configure(count):
        """Switch back and forth at each call, or change the settings once."""
        partition.log.configure(other if is_done_once or count % 2 else initial)

    inspector = ChangingInspector(reader, configure)
    response = await in_the_end(send(hosting, build_request(records), inspector))
    if isinstance(expected, Codec):
        assert error_of(response) == "NONE"
        assert RecordBatch(stored(partition)).codec is expected
    else:
        assert error_of(response) == expected
    assert inspector.count <= offloaded_validation.VALIDATION_ATTEMPTS_MAX


async def test_leadership_lost_during_validation_appends_nothing(tmp_path, reader):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    inspector = ChangingInspector(
        reader, lambda count: partition.make_follower(OTHER, leader_epoch=1, partition_epoch=1)
    )
    assert error_of(await in_the_end(send(hosting, build_request(ZSTD), inspector))) == (
        "NOT_LEADER_OR_FOLLOWER"
    )
    assert partition.log.log_end_offset == 0
    retried = send(hosting, build_request(ZSTD), reader)
    assert error_of(retried) == "NOT_LEADER_OR_FOLLOWER"


async def test_death_of_the_record_inspector_returns_a_retriable_error(tmp_path):
    class DyingInspector:
        async def validate(self, received, rules, *, now_ms):
            raise RequestTimedOut("the record inspector process died")

    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    response = await in_the_end(send(hosting, build_request(ZSTD), DyingInspector()))
    assert error_of(response) == "REQUEST_TIMED_OUT"
    assert partition.log.log_end_offset == 0


async def test_others_append_during_validation_and_only_acks_all_waits_for_followers(
    tmp_path, reader
):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    body = build_request(ZSTD, acks=-1)
    body.timeout_ms = 0
    task = hosting.background.start(in_the_end(send(hosting, body, reader)))
    await asyncio.sleep(0)
    assert error_of(send(hosting, build_request(large_batch(1)), reader)) == "NONE"
    assert partition.log.log_end_offset == 1
    assert error_of(await task) == "REQUEST_TIMED_OUT"
    assert partition.log.log_end_offset == 1 + MANY
