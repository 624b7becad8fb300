"""A log directory to query: two topics of two partitions, written by the storage engine.

Records have about 100 bytes, in batches of 16 KB, as a producer makes them that is never idle for
long, and all of it takes a day.  Some batches are made once, and written over and over.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.types import TopicPartition
from odradek.storage.log_loader import Findings, LogPlace, open_log
from odradek.storage.settings import TopicSettings

FIRST_TIMESTAMP = 1_763_337_600_000
DAY_MS = 86_400_000
PARTITIONS = [TopicPartition(topic, number) for topic in ("clicks", "orders") for number in (0, 1)]
SEGMENT_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 16 * 1024
KEYS = 20_000
_DISTINCT_BATCHES = 64
_PRODUCERS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)


@dataclass(frozen=True, slots=True)
class Written:
    """What is in the directory."""

    directory: Path
    records: int
    size_bytes: int  # of the segments

    @property
    def logs(self) -> str:
        """The files of batches, as a pattern."""
        return f"{self.directory}/*/*.log"


def write(directory: Path, megabytes: int) -> Written:
    chosen = random.Random(megabytes)
    size_bytes = megabytes * 1_000_000 // len(PARTITIONS)
    records = sum(_write_log(directory, each, size_bytes, chosen) for each in PARTITIONS)
    sizes = [path.stat().st_size for path in directory.glob("*/*.log")]
    return Written(directory, records, sum(sizes))


def _write_log(
    directory: Path, partition: TopicPartition, size_bytes: int, chosen: random.Random
) -> int:
    """How many records it has."""
    place = directory / f"{partition.topic}-{partition.partition}"
    place.mkdir(parents=True)
    log = open_log(_place(place, partition), Findings())
    batches = [_batch(chosen) for _ in range(_DISTINCT_BATCHES)]
    count = max(1, size_bytes // BATCH_BYTES)
    for number in range(count):
        timestamp = FIRST_TIMESTAMP + DAY_MS * number // count
        batch = _begun_at(batches[number % len(batches)], timestamp)
        log.append_as_leader(batch, leader_epoch=0, now_ms=timestamp)
    log.close(now_ms=FIRST_TIMESTAMP + DAY_MS)
    return log.end_offset


def _place(directory: Path, partition: TopicPartition) -> LogPlace:
    return LogPlace(
        directory=directory,
        partition=partition,
        settings=TopicSettings(segment_bytes=SEGMENT_BYTES),
        producer_settings=_PRODUCERS,
        now_ms=FIRST_TIMESTAMP,
    )


def _batch(chosen: random.Random) -> bytes:
    """From time 0 on; of the keys, those with low numbers are hot."""
    builder = BatchBuilder(BatchFields())
    timestamp = 0
    while builder.size_bytes < BATCH_BYTES - 200:
        key = b"user-%05d" % int(KEYS * chosen.random() ** 3)
        builder.append(
            timestamp=timestamp, key=key, value=chosen.randbytes(chosen.randint(40, 140))
        )
        timestamp += chosen.randint(0, 10)
    return bytes(builder.build())


_CHECKSUM = struct.Struct(">I")
_TIMES = struct.Struct(">qq")
_CHECKSUM_AT, _CHECKED_FROM, _TIMES_AT = 17, 21, 27


def _begun_at(batch: bytes, timestamp: int) -> memoryview:
    """The same batch at another time."""
    moved = memoryview(bytearray(batch))
    first, last = _TIMES.unpack_from(batch, _TIMES_AT)
    _TIMES.pack_into(moved, _TIMES_AT, timestamp + first, timestamp + last)
    _CHECKSUM.pack_into(moved, _CHECKSUM_AT, crc32c(moved[_CHECKED_FROM:]))
    return moved
