"""What Kafka's own classes wrote and read: tests/vectors/legacy_records.json."""

import json
from functools import cache
from pathlib import Path

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic, magic_of

VECTORS = Path(__file__).parent.parent / "vectors" / "legacy_records.json"

TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.CREATE_TIME,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@cache
def legacy_vectors() -> dict:
    return json.loads(VECTORS.read_text())


def codec_named(name: str) -> Codec:
    return Codec[name.upper()]


def kafka_reads(described: dict) -> list[dict]:
    """The batches of a set, as Kafka described them."""
    return [
        batch
        | {
            "codec": codec_named(batch["codec"]),
            "timestamp_type": TIMESTAMP_TYPES[batch["timestamp_type"]],
        }
        for batch in described["batches"]
    ]


def we_read(buffer: bytes) -> list[dict]:
    """The same of our own reading."""
    batches = batches_of_any_magic(buffer)
    read = [_described(batch) for batch in batches]
    assert batches.partial_bytes == 0
    return read


def _described(batch: AnyBatch) -> dict:
    batch.check_crc()
    return {
        "magic": magic_of(batch),
        "codec": batch.codec,
        "timestamp_type": batch.timestamp_type,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "max_timestamp": batch.max_timestamp,
        "size_bytes": batch.size_bytes,
        "records": [
            [offset, timestamp, _hex(key), _hex(value), len(headers)]
            for offset, timestamp, key, value, headers in batch.records()
        ],
    }


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()
