"""Measures building and reading of record batches as ratios to pure-Python code of other clients.

    python benchmarks/records.py

A ratio above 1 means that ours is faster than the faster of aiokafka and kafka-python.  The goal of
1.5 applies to plain records.  Reading accesses every key and value, from a receive buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from timing import seconds_per_call

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header
from tests.support.record_peers import (
    AiokafkaBatch,
    AiokafkaBuilder,
    KafkaPythonBatch,
    KafkaPythonBuilder,
)

COUNT = 1000
FIRST_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The contents of the records, and the lowest acceptable ratio."""

    name: str
    value: bytes
    key: bytes | None = None
    headers: list[Header] = field(default_factory=list)
    codec: Codec = Codec.NONE
    goal: float | None = None


RECORD_SHAPES = [
    RecordShape("1,000 records of 100 bytes", b"v" * 100, goal=1.5),
    RecordShape("with keys", b"v" * 90, key=b"k" * 10),
    RecordShape(
        "with keys and a header", b"v" * 80, key=b"k" * 10, headers=[Header("name", b"value")]
    ),
    RecordShape("of 10,000 bytes", b"v" * 10_000),
    RecordShape("of 100 bytes, lz4", b"v" * 100, codec=Codec.LZ4),
]


def main() -> None:
    for shape in RECORD_SHAPES:
        _compare_building(shape)
        _compare_reading(shape)
    _print_header_time()


def _compare_building(shape: RecordShape) -> None:
    raw = _build_with_odradek(shape)
    for peer in (AiokafkaBuilder, KafkaPythonBuilder):
        assert shape.codec or _build_with(peer, shape)[21:] == raw[21:]
    _print(
        f"build {shape.name}",
        shape.goal,
        ours=lambda: _build_with_odradek(shape),
        aiokafka=lambda: _build_with(AiokafkaBuilder, shape),
        kafka_python=lambda: _build_with(KafkaPythonBuilder, shape),
    )


def _compare_reading(shape: RecordShape) -> None:
    raw = bytearray(_build_with_odradek(shape))
    _print(
        f"read {shape.name}",
        shape.goal,
        ours=lambda: _read_all_bytes(RecordBatch(raw)),
        aiokafka=lambda: _read_all_bytes(AiokafkaBatch(raw)),
        kafka_python=lambda: _read_all_bytes(KafkaPythonBatch(raw)),
    )


def _build_with_odradek(shape: RecordShape) -> bytearray:
    builder = BatchBuilder(BatchFields(codec=shape.codec))
    for index in range(COUNT):
        builder.append(
            timestamp=FIRST_TIMESTAMP + index,
            key=shape.key,
            value=shape.value,
            headers=shape.headers,
        )
    return builder.build()


def _build_with(builder_class: Any, shape: RecordShape) -> Any:
    builder = builder_class(
        magic=2,
        compression_type=shape.codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for index in range(COUNT):
        builder.append(
            index,
            timestamp=FIRST_TIMESTAMP + index,
            key=shape.key,
            value=shape.value,
            headers=shape.headers,
        )
    return builder.build()


def _read_all_bytes(batch: Any) -> int:
    total = 0
    for record in batch:
        key = record.key
        total += len(record.value) + (0 if key is None else len(key))
    return total


def _print(name: str, goal: float | None, **contenders: Callable[[], object]) -> None:
    times = seconds_per_call(contenders)
    ours = times.pop("ours")
    peer = min(times, key=times.__getitem__)
    ratio = times[peer] / ours
    goal_text = "" if goal is None else f"{goal:6.1f}" + ("" if ratio >= goal else "  MISSED")
    print(
        f"{name + ', ' + peer:52} {ours * 1e6:6.0f} us {times[peer] * 1e6:7.0f} us "
        f"{ratio:6.2f} {goal_text}"
    )


def _print_header_time() -> None:
    raw = _build_with_odradek(RECORD_SHAPES[0])
    times = seconds_per_call(
        {
            "header": lambda: RecordBatch(raw),
            "header and checksum": lambda: RecordBatch(raw).is_valid(),
        }
    )
    for name, seconds in times.items():
        print(f"{name + f' of a batch of {len(raw):,} bytes':52} {seconds * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
