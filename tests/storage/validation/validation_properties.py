"""Accepted records are those sent, with offsets assigned; any other bytes are rejected."""

from contextlib import suppress
from dataclasses import replace
from struct import Struct, pack_into
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    composite,
    integers,
    lists,
    none,
    sampled_from,
    tuples,
)

from odradek.protocol.errors import CorruptMessage, KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields, fields_of
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.log_validator import validate_batch
from odradek.storage.validation.offset_assignment import validate_follower_records
from tests.support.appends import NOW_MS, admitted, rules_of, written
from tests.support.batches import batch_of, with_checksum

OFFSETS = integers(0, 2**62)
HEADERS = sampled_from([(), (Header("h", None),), (Header("", b""), Header("x", b"y"))])
PRODUCERS = sampled_from(
    [
        {},
        {"producer_id": 0, "producer_epoch": 0, "base_sequence": 2**31 - 1},
        {
            "producer_id": 9,
            "producer_epoch": 3,
            "base_sequence": 0,
            "is_transactional": True,
        },
    ]
)
POLICIES = ("delete", "compact")
CODECS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
CLOCKS = ("CreateTime", "LogAppendTime")
RULES = {
    (policy, codec, clock): rules_of(
        cleanup_policy=policy, compression_type=codec, message_timestamp_type=clock
    )
    for policy in POLICIES
    for codec in CODECS
    for clock in CLOCKS
}
ANY_RULES = sampled_from(sorted(RULES)).map(RULES.__getitem__)
RECORD_READING_RULES = [rules for (policy, _, _), rules in RULES.items() if policy == "compact"]


@composite
def keyed_records(draw):
    contents = tuples(
        integers(-1, 2**40), binary(max_size=9), none() | binary(max_size=40), HEADERS
    )
    fields_of_records = draw(lists(contents, min_size=1, max_size=6))
    return [Record(offset, *content) for offset, content in enumerate(fields_of_records)]


@composite
def batches(draw):
    fields = BatchFields(codec=draw(sampled_from(Codec)), **draw(PRODUCERS))
    builder = BatchBuilder(fields)
    for offset, timestamp, key, value, headers in draw(keyed_records()):
        builder.append(offset=offset, timestamp=timestamp, key=key, value=value, headers=headers)
    return bytes(builder.build())


@composite
def damaged_batches(draw):
    """Batches with a few wrong bytes or a missing end, often with a matching checksum."""
    batch = bytearray(draw(batches()))
    for _ in range(draw(integers(1, 3))):
        batch[draw(integers(0, len(batch) - 1))] = draw(integers(0, 255))
    if draw(booleans()):
        batch = bytearray(with_checksum(batch))
    return bytes(batch[: draw(integers(0, len(batch)) | integers(len(batch) - 2, len(batch)))])


@given(batches(), ANY_RULES, OFFSETS)
def test_only_offsets_and_log_append_time_of_records_change(batch, rules, next_offset):
    validated = admitted(batch, rules, next_offset=next_offset)
    [validated_batch], before = validated.batches, RecordBatch(batch)
    validated_batch.check_crc()
    assert bytes(validated_batch.view) == written(validated)
    assert list(validated_batch) == [
        record._replace(
            offset=record.offset + next_offset,
            timestamp=NOW_MS if rules.is_log_append_time else record.timestamp,
        )
        for record in before
    ]
    assert validated.last_offset == next_offset + before.last_offset_delta
    assert validated.max_timestamp == max(record.timestamp for record in validated_batch)
    assert validated_batch.codec is (before.codec if rules.codec is None else rules.codec)
    assert fields_of(validated_batch).producer_id == before.producer_id
    assert validated_batch.base_sequence == before.base_sequence


@given(batches(), OFFSETS)
def test_reading_the_records_does_not_change_valid_batches(batch, next_offset):
    unread = admitted(batch, RULES["delete", "producer", "CreateTime"], next_offset=next_offset)
    read = admitted(batch, RULES["compact", "producer", "CreateTime"], next_offset=next_offset)
    assert written(unread) == written(read)


@given(batches(), batches(), integers(0, 200))
def test_partial_second_batch_is_ignored(batch, next_batch, cut):
    partial_batch = next_batch[: max(0, len(next_batch) - 1 - cut)]
    assert written(admitted(batch + partial_batch)) == written(admitted(batch))


@given(
    keyed_records(),
    sampled_from([0, 1]),
    sampled_from([codec for codec in Codec if codec is not Codec.ZSTD]),
    ANY_RULES,
)
def test_legacy_formats_are_converted_to_the_same_records(records, magic, codec, rules):
    plain = [record._replace(headers=()) for record in records]
    old = build_legacy_set(plain, LegacyFormat(magic=magic, codec=codec))
    [validated_batch] = admitted(old, rules).batches
    assert [(record.offset, record.key, record.value) for record in validated_batch] == [
        (record.offset, record.key, record.value) for record in plain
    ]
    if magic and not rules.is_log_append_time:
        assert [record.timestamp for record in validated_batch] == [
            record.timestamp for record in plain
        ]


@given(damaged_batches() | binary(max_size=120), ANY_RULES)
def test_random_bytes_are_accepted_or_rejected(records, rules):
    try:
        validated = admitted(records, rules)
    except KafkaError:
        return
    for batch in validated.batches:
        batch.check_crc()


@given(damaged_batches())
def test_batches_accepted_unread_can_be_read_or_are_corrupt(records):
    try:
        validated = admitted(records)
    except KafkaError:
        return
    for batch in validated.batches:
        with suppress(CorruptMessage):
            assert len(list(batch)) == batch.count


@given(damaged_batches(), sampled_from(RECORD_READING_RULES))
def test_batches_accepted_after_reading_can_be_read_and_rewritten(records, rules):
    try:
        validated = admitted(records, rules)
    except KafkaError:
        return
    for batch in validated.batches:
        builder = BatchBuilder(fields_of(batch))
        for offset, timestamp, key, value, headers in batch:
            builder.append(
                offset=offset, timestamp=timestamp, key=key, value=value, headers=headers
            )
        assert builder.count == batch.last_offset_delta + 1


@given(lists(batches() | damaged_batches(), max_size=3), integers(0, 5))
def test_follower_accepts_or_rejects_random_bytes(sets, next_offset):
    records = bytearray(b"".join(sets))
    before = bytes(records)
    try:
        validated = validate_follower_records(records, next_offset=next_offset)
    except KafkaError:
        return
    assert before.startswith(written(validated))
    offsets = [batch.last_offset for batch in validated.batches]
    assert offsets == sorted(set(offsets))
    assert not offsets or validated.first_offset >= next_offset


@given(lists(batches(), min_size=1, max_size=4), OFFSETS)
def test_follower_accepts_what_a_leader_wrote(sets, next_offset):
    log = b""
    end_offset = next_offset
    for records in sets:
        validated = admitted(records, next_offset=end_offset)
        log += written(validated)
        end_offset = validated.last_offset + 1
    follower_validated = validate_follower_records(bytearray(log), next_offset=next_offset)
    assert written(follower_validated) == log
    assert (follower_validated.first_offset, follower_validated.last_offset) == (
        next_offset,
        end_offset - 1,
    )


@composite
def headers(draw):
    """Batches whose header fields may have any value, with a matching checksum."""
    batch = bytearray(draw(batches()))
    for field in draw(lists(sampled_from(HEADER_FIELDS), max_size=3)):
        value = draw(sampled_from([-1, 0, 1, 2]) | integers(-(2**15), 2**15 - 1))
        field.layout.pack_into(batch, field.position, value)
    return bytes(with_checksum(batch))


class HeaderField(NamedTuple):
    position: int
    layout: Struct


HEADER_FIELDS = [
    *(HeaderField(position, Struct(">q")) for position in (0, 27, 35, 43)),
    *(HeaderField(position, Struct(">h")) for position in (21, 51)),
    *(HeaderField(position, Struct(">i")) for position in (12, 23, 53, 57)),
]


@given(headers(), sampled_from(AppendOrigin))
def test_fast_path_gives_the_same_outcome_as_the_slow_path(records, origin):
    assert outcome_of(records, FAST_PATH, origin) == outcome_of(records, SLOW_PATH, origin)


@pytest.mark.parametrize("producer_id", [-1, 5])
def test_fast_path_gives_the_same_outcome_for_all_attributes(producer_id):
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, 0)
    batch = batch_of(
        Record(0, NOW_MS, b"k", b"v", ()),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    for attributes in range(-(2**15), 2**15):
        pack_into(">h", batch, 21, attributes)
        records = bytes(with_checksum(batch))
        assert outcome_of(records, FAST_PATH) == outcome_of(records, SLOW_PATH), hex(
            attributes & 0xFFFF
        )


FAST_PATH = rules_of()
SLOW_PATH = replace(FAST_PATH)
object.__setattr__(SLOW_PATH, "allows_fast_path", False)


def outcome_of(records, rules, origin=AppendOrigin.CLIENT):
    try:
        batch = validate_batch(bytearray(records), rules, origin=origin, now_ms=NOW_MS)
    except KafkaError as error:
        return type(error), str(error)
    return batch and bytes(batch.view)
