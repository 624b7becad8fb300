"""Batches of magic 2: round trips, damage, and comparison with a slow reference reader."""

from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    builds,
    composite,
    integers,
    just,
    lists,
    none,
    one_of,
    sampled_from,
    text,
)

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.batch import RecordBatch, batches_in
from odradek.protocol.records.builder import BatchBuilder, BatchFields, fields_of
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import BatchContext, Header, Record, read_records
from odradek.protocol.varint import read_varint, read_varlong, varint, varlong
from tests.support.batches import batch_around, with_checksum

CONTENTS = (
    none()
    | binary(max_size=20)
    | binary(min_size=60, max_size=70)
    | sampled_from([bytes(8191), bytes(8192)])
)
HEADERS = lists(builds(Header, text(max_size=8), none() | binary(max_size=8)), max_size=3)
#: No two timestamps are too far apart for one batch.
TIMESTAMPS = integers(-1, 2**63 - 2) | integers(10**12, 10**12 + 100) | integers(-1, 20_000)
STEPS = integers(1, 3) | integers(60, 70) | sampled_from([8191, 8192, 2**20])
PRODUCERS = sampled_from(
    [
        {},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2**31 - 2},
        {
            "producer_id": 2**63 - 1,
            "producer_epoch": 2**15 - 1,
            "base_sequence": 0,
            "is_transactional": True,
        },
    ]
)


@composite
def fields(draw):
    return BatchFields(
        base_offset=draw(integers(0, 2**62)),
        partition_leader_epoch=draw(integers(-1, 2**31 - 1)),
        codec=draw(sampled_from(Codec)),
        append_time_ms=draw(none() | TIMESTAMPS),
        delete_horizon_ms=draw(none() | integers(0, 2**63 - 1)),
        **draw(PRODUCERS),
    )


@composite
def batches(draw):
    """Draw the fields of a batch and its records, in offset order with possible gaps."""
    fields_drawn = draw(fields())
    offset = fields_drawn.base_offset + draw(integers(0, 100))
    records = []
    for _ in range(draw(integers(1, 6))):
        headers = tuple(draw(HEADERS))
        records.append(Record(offset, draw(TIMESTAMPS), draw(CONTENTS), draw(CONTENTS), headers))
        offset += draw(STEPS)
    return fields_drawn, records


@given(batches(), integers(0, 50))
def test_built_batch_is_read_back(batch, gap):
    batch_fields, records = batch
    builder = BatchBuilder(batch_fields)
    for record in records:
        builder.append(**record._asdict())
    last_offset = records[-1].offset + gap
    read = RecordBatch(builder.build(last_offset=last_offset))

    read.check_crc()
    assert fields_of(read) == batch_fields
    assert read.last_offset == last_offset
    if batch_fields.append_time_ms is not None:
        records = [record._replace(timestamp=batch_fields.append_time_ms) for record in records]
    assert list(read) == records
    assert read.max_timestamp == max(record.timestamp for record in records)


@given(lists(batches(), max_size=3), binary(max_size=11))
def test_record_set_is_split_into_its_batches(sets, tail):
    whole = bytearray()
    for batch_fields, records in sets:
        builder = BatchBuilder(batch_fields)
        for record in records:
            builder.append(**record._asdict())
        whole += builder.build()
    read = batches_in(bytes(whole) + tail)
    assert [batch.base_offset for batch in read] == [
        batch_fields.base_offset for batch_fields, _ in sets
    ]
    assert read.partial_bytes == len(tail)


@given(binary(max_size=200), integers(0, 10), integers(0, 300), sampled_from(Codec))
def test_any_bytes_as_records_are_read_or_rejected(records, count, last_delta, codec):
    batch = RecordBatch(batch_around(records, count=count, last_delta=last_delta, codec=codec))
    try:
        read = list(batch)
    except CorruptMessage:
        return
    assert len(read) == count


@given(batches(), lists(integers(0, 10**6), max_size=4), booleans(), binary(max_size=4))
def test_damage_is_rejected_or_harmless(batch, positions, has_right_checksum, tail):
    batch_fields, records = batch
    builder = BatchBuilder(batch_fields)
    for record in records:
        builder.append(**record._asdict())
    damaged = builder.build()
    for position in positions:
        damaged[position % len(damaged)] ^= 1 << position % 8
    if has_right_checksum:
        damaged = with_checksum(damaged)
    try:
        for read in batches_in(damaged + tail):
            assert len(list(read.records(max_bytes=10**6))) == read.count
    except CorruptMessage:
        return


@composite
def almost_records(draw):
    """Draw bytes in the shape of a record, whose numbers may be wrong or longer than necessary."""
    number = one_of(
        integers(-3, 3), integers(-70, 70), integers(-9000, 9000), integers(-(2**31), 2**31 - 1)
    ).map(varint)
    padded = number.map(lambda encoded: encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\0")
    content = binary(max_size=3).map(lambda content: varint(len(content)) + content)
    sized = one_of(just(varint(-1)), content, content, number)
    fields = [
        draw(binary(min_size=1, max_size=1)),
        draw(one_of(number, padded, integers(-(2**63), 2**63 - 1).map(varlong))),
        draw(one_of(number, padded)),
        draw(sized),
        draw(sized),
        draw(one_of(just(b"\0"), just(b"\0"), number, padded)),
        *draw(lists(sized, max_size=4)),
    ]
    body = b"".join(fields)
    return draw(one_of(just(varint(len(body))), number)) + body + draw(binary(max_size=1))


@given(
    almost_records() | binary(max_size=30),
    integers(0, 300),
    sampled_from([0, 10**12, -(2**63), 2**63 - 1]),
    none() | integers(0, 9),
)
def test_reader_agrees_with_the_slow_reference_reader(
    source, last_delta, base_timestamp, append_time
):
    context = BatchContext(1, 0, last_delta, base_timestamp, append_time)
    assert outcome(lambda: list(read_records(source, context))) == outcome(
        lambda: [read_slowly(source, context)]
    )


def read_slowly(source: bytes, context: BatchContext) -> Record:
    """Read a record that fills ``source`` field by field."""
    length, start = read_varint(source, 0)
    time_delta, position = read_varlong(source, start + 1)
    offset_delta, position = read_varint(source, position)
    key, position = nullable(source, position)
    value, position = nullable(source, position)
    count, position = read_varint(source, position)
    check(0 <= count <= len(source))
    headers = []
    for _ in range(count):
        name, position = nullable(source, position)
        check(name is not None)
        content, position = nullable(source, position)
        headers.append(Header(name.decode("utf-8", "surrogateescape"), content))
    timestamp = context.append_time
    if timestamp is None:
        timestamp = context.base_timestamp + time_delta
    check(start + length == position == len(source))
    check(0 <= offset_delta <= context.last_offset_delta)
    check(-(2**63) <= timestamp < 2**63)
    return Record(context.base_offset + offset_delta, timestamp, key, value, tuple(headers))


def nullable(source: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(source, position)
    if size == -1:
        return None, position
    check(0 <= size <= len(source) - position)
    return source[position : position + size], position + size


def check(holds: bool) -> None:
    if not holds:
        raise DecodeError


def outcome(read):
    try:
        return read()
    except DecodeError:
        return "corrupt"
