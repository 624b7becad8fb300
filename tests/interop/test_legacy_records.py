"""Kafka's own classes read what we write in the old formats, and refuse what we refuse."""

import json
import random
from pathlib import Path

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.conversion import down_convert, rebuild_for_append
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_of
from tests.support.java_program import run_java
from tests.support.legacy_messages import FORMATS, message, wrapper
from tests.support.legacy_vectors import kafka_reads, we_read

PROGRAM = Path(__file__).parent / "java" / "LegacyRecords.java"


@pytest.fixture(scope="module")
def read_by_kafka(kafka_39_jars):
    def ask(sets):
        lines = run_java(kafka_39_jars, PROGRAM, "read", lines=[bytes(each).hex() for each in sets])
        return [json.loads(line) for line in lines]

    return ask


def test_kafka_reads_what_is_written(read_by_kafka):
    sets = [
        build_legacy_set(
            some_records(seed), LegacyFormat(magic=magic, codec=codec, append_time_ms=time)
        )
        for seed in range(12)
        for magic, codec in FORMATS
        for time in (None, 1_700_000_000_123)
    ]
    check_kafka_agrees(read_by_kafka, sets)


def test_kafka_reads_what_is_down_converted(read_by_kafka):
    sets = []
    for seed in range(12):
        records = some_records(seed, headers=(Header("h", b"v"),))
        for magic, codec in FORMATS:
            batch = batch_of(*records, base_offset=records[0].offset, codec=codec)
            parts = down_convert(batch, magic=magic, first_offset=records[1].offset)
            sets.append(b"".join(part.buffer for part in parts))
    check_kafka_agrees(read_by_kafka, sets)


def test_kafka_reads_what_is_rebuilt(read_by_kafka):
    sets = []
    for seed in range(12):
        for magic, codec in FORMATS:
            sent = build_legacy_set(some_records(seed), LegacyFormat(magic=magic, codec=codec))
            fields = BatchFields(base_offset=1000, codec=random.Random(seed).choice(list(Codec)))
            sets.append(rebuild_for_append(list(batches_of_any_magic(sent)), fields).buffer)
    check_kafka_agrees(read_by_kafka, sets)


def test_kafka_refuses_what_is_refused(read_by_kafka):
    sets = [
        message(1, None, attributes=Codec.GZIP),
        wrapper(1, b""),
        wrapper(0, wrapper(0, message(0, b"v"))),
        wrapper(1, message(1, b"v"), codec=Codec.ZSTD),
        wrapper(1, message(1, b"v", offset=9), offset=8),
        message(1, b"v", attributes=7),
        message(0, b"v")[:8] + b"\0\0\0\x0d" + message(0, b"v")[12:],
    ]
    for answer, sent in zip(read_by_kafka(sets), sets, strict=True):
        assert "refused" in answer
        with pytest.raises(CorruptMessage):
            we_read(sent)


def check_kafka_agrees(read_by_kafka, sets):
    for answer, written in zip(read_by_kafka(sets), sets, strict=True):
        assert kafka_reads(answer) == we_read(bytes(written))


def some_records(seed, *, headers=()):
    """Now and then enough to fill several blocks of a codec."""
    chance = random.Random(seed)
    offset = chance.randrange(2**40)
    records = []
    for _ in range(chance.choice([2, 5, 60])):
        key, value = some_bytes(chance, 20), some_bytes(chance, 5000)
        records.append(
            Record(offset, chance.choice([-1, 0, 1_700_000_000_000]), key, value, headers)
        )
        offset += chance.choice([1, 1, 1, 1000])
    return records


def some_bytes(chance, size_max):
    """Half of them compressible."""
    if chance.random() < 0.1:
        return None
    size = chance.randrange(size_max)
    return chance.randbytes(size) if chance.random() < 0.5 else b"word " * (size // 5)
