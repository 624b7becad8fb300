"""What is admitted is what was sent, with offsets; and no bytes do worse than be refused."""

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
from odradek.protocol.records.legacy_builder import LegacyFormat, legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.storage.admission.batch_validation import valid_batch
from odradek.storage.admission.offset_assignment import admit_as_follower
from odradek.storage.producers.append import AppendOrigin
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
WALKED = [rules for (policy, _, _), rules in RULES.items() if policy == "compact"]


@composite
def keyed_records(draw):
    contents = tuples(
        integers(-1, 2**40), binary(max_size=9), none() | binary(max_size=40), HEADERS
    )
    drawn = draw(lists(contents, min_size=1, max_size=6))
    return [Record(offset, *content) for offset, content in enumerate(drawn)]


@composite
def batches(draw):
    fields = BatchFields(codec=draw(sampled_from(Codec)), **draw(PRODUCERS))
    builder = BatchBuilder(fields)
    for offset, timestamp, key, value, headers in draw(keyed_records()):
        builder.append(offset=offset, timestamp=timestamp, key=key, value=value, headers=headers)
    return bytes(builder.build())


@composite
def damaged_batches(draw):
    """With a few wrong bytes, or cut short; often with the checksum of what they have become."""
    batch = bytearray(draw(batches()))
    for _ in range(draw(integers(1, 3))):
        batch[draw(integers(0, len(batch) - 1))] = draw(integers(0, 255))
    if draw(booleans()):
        batch = bytearray(with_checksum(batch))
    return bytes(batch[: draw(integers(0, len(batch)) | integers(len(batch) - 2, len(batch)))])


@given(batches(), ANY_RULES, OFFSETS)
def test_records_keep_all_but_their_offsets_and_the_brokers_time(batch, rules, next_offset):
    taken = admitted(batch, rules, next_offset=next_offset)
    [after], before = taken.batches, RecordBatch(batch)
    after.check_crc()
    assert bytes(after.view) == written(taken)
    assert list(after) == [
        record._replace(
            offset=record.offset + next_offset,
            timestamp=NOW_MS if rules.is_append_time else record.timestamp,
        )
        for record in before
    ]
    assert taken.last_offset == next_offset + before.last_offset_delta
    assert taken.max_timestamp == max(record.timestamp for record in after)
    assert after.codec is (before.codec if rules.codec is None else rules.codec)
    assert fields_of(after).producer_id == before.producer_id
    assert after.base_sequence == before.base_sequence


@given(batches(), OFFSETS)
def test_reading_the_records_changes_nothing_about_good_batches(batch, next_offset):
    unread = admitted(batch, RULES["delete", "producer", "CreateTime"], next_offset=next_offset)
    read = admitted(batch, RULES["compact", "producer", "CreateTime"], next_offset=next_offset)
    assert written(unread) == written(read)


@given(batches(), batches(), integers(0, 200))
def test_what_follows_the_first_batch_in_part_does_not_matter(batch, next_batch, cut):
    part = next_batch[: max(0, len(next_batch) - 1 - cut)]
    assert written(admitted(batch + part)) == written(admitted(batch))


@given(
    keyed_records(),
    sampled_from([0, 1]),
    sampled_from([codec for codec in Codec if codec is not Codec.ZSTD]),
    ANY_RULES,
)
def test_old_formats_become_what_the_present_one_would_have_been(records, magic, codec, rules):
    plain = [record._replace(headers=()) for record in records]
    old = legacy_set(plain, LegacyFormat(magic=magic, codec=codec))
    [after] = admitted(old, rules).batches
    assert [(record.offset, record.key, record.value) for record in after] == [
        (record.offset, record.key, record.value) for record in plain
    ]
    if magic and not rules.is_append_time:
        assert [record.timestamp for record in after] == [record.timestamp for record in plain]


@given(damaged_batches() | binary(max_size=120), ANY_RULES)
def test_any_bytes_are_taken_or_refused(records, rules):
    try:
        taken = admitted(records, rules)
    except KafkaError:
        return
    for batch in taken.batches:
        batch.check_crc()


@given(damaged_batches())
def test_what_was_taken_unread_can_be_read_or_is_seen_to_be_corrupt(records):
    try:
        taken = admitted(records)
    except KafkaError:
        return
    for batch in taken.batches:
        with suppress(CorruptMessage):
            assert len(list(batch)) == batch.count


@given(damaged_batches(), sampled_from(WALKED))
def test_what_was_read_and_taken_can_be_read_and_written_again(records, rules):
    try:
        taken = admitted(records, rules)
    except KafkaError:
        return
    for batch in taken.batches:
        builder = BatchBuilder(fields_of(batch))
        for offset, timestamp, key, value, headers in batch:
            builder.append(
                offset=offset, timestamp=timestamp, key=key, value=value, headers=headers
            )
        assert builder.count == batch.last_offset_delta + 1


@given(lists(batches() | damaged_batches(), max_size=3), integers(0, 5))
def test_a_follower_takes_any_bytes_or_refuses_them(sets, next_offset):
    records = bytearray(b"".join(sets))
    before = bytes(records)
    try:
        taken = admit_as_follower(records, next_offset=next_offset)
    except KafkaError:
        return
    assert before.startswith(written(taken))
    offsets = [batch.last_offset for batch in taken.batches]
    assert offsets == sorted(set(offsets))
    assert not offsets or taken.first_offset >= next_offset


@given(lists(batches(), min_size=1, max_size=4), OFFSETS)
def test_a_follower_takes_what_a_leader_wrote(sets, next_offset):
    log = b""
    end_offset = next_offset
    for records in sets:
        taken = admitted(records, next_offset=end_offset)
        log += written(taken)
        end_offset = taken.last_offset + 1
    followed = admit_as_follower(bytearray(log), next_offset=next_offset)
    assert written(followed) == log
    assert (followed.first_offset, followed.last_offset) == (next_offset, end_offset - 1)


@composite
def headers(draw):
    """Batches of which every field of the header may be anything, with the checksum of that."""
    batch = bytearray(draw(batches()))
    for place in draw(lists(sampled_from(PLACES), max_size=3)):
        value = draw(sampled_from([-1, 0, 1, 2]) | integers(-(2**15), 2**15 - 1))
        place.layout.pack_into(batch, place.position, value)
    return bytes(with_checksum(batch))


class Place(NamedTuple):
    position: int
    layout: Struct


PLACES = [
    *(Place(at, Struct(">q")) for at in (0, 27, 35, 43)),
    *(Place(at, Struct(">h")) for at in (21, 51)),
    *(Place(at, Struct(">i")) for at in (12, 23, 53, 57)),
]


@given(headers(), sampled_from(AppendOrigin))
def test_the_short_way_admits_what_the_long_way_does(sent, origin):
    assert outcome_of(sent, USUAL, origin) == outcome_of(sent, LONG_WAY, origin)


@pytest.mark.parametrize("producer_id", [-1, 5])
def test_no_attributes_let_a_batch_go_the_short_way_that_the_long_way_refuses(producer_id):
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, 0)
    batch = batch_of(
        Record(0, NOW_MS, b"k", b"v", ()),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    for attributes in range(-(2**15), 2**15):
        pack_into(">h", batch, 21, attributes)
        sent = bytes(with_checksum(batch))
        assert outcome_of(sent, USUAL) == outcome_of(sent, LONG_WAY), hex(attributes & 0xFFFF)


USUAL = rules_of()
LONG_WAY = replace(USUAL)
object.__setattr__(LONG_WAY, "takes_usual_batches", False)


def outcome_of(sent, rules, origin=AppendOrigin.CLIENT):
    try:
        batch = valid_batch(bytearray(sent), rules, origin=origin, now_ms=NOW_MS)
    except KafkaError as refusal:
        return type(refusal), str(refusal)
    return batch and bytes(batch.view)
