"""Writes a log directory for queries: two topics of two partitions, by the storage engine.

Records have about 100 bytes, in batches of 16 KB, as a busy producer makes them, and span one day.
A few distinct batches are built once and written repeatedly.
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
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log
from odradek.storage.settings import TopicSettings

FIRST_TIMESTAMP = 1_763_337_600_000
DAY_MS = 86_400_000
PARTITIONS = [TopicPartition(topic, number) for topic in ("clicks", "orders") for number in (0, 1)]
SEGMENT_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 16 * 1024
KEYS = 20_000
_DISTINCT_BATCHES = 64
_PRODUCER_SETTINGS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)


@dataclass(frozen=True, slots=True)
class LogData:
    """The directory and its contents."""

    directory: Path
    records: int
    size_bytes: int  # of the segments

    @property
    def log_files_glob(self) -> str:
        """The glob pattern of the log files."""
        return f"{self.directory}/*/*.log"


def write_logs(directory: Path, megabytes: int) -> LogData:
    rng = random.Random(megabytes)
    size_bytes = megabytes * 1_000_000 // len(PARTITIONS)
    records = sum(_write_log(directory, each, size_bytes, rng) for each in PARTITIONS)
    sizes = [path.stat().st_size for path in directory.glob("*/*.log")]
    return LogData(directory, records, sum(sizes))


def _write_log(
    directory: Path, partition: TopicPartition, size_bytes: int, rng: random.Random
) -> int:
    """Write the log of one partition and return its number of records."""
    log_directory = directory / f"{partition.topic}-{partition.partition}"
    log_directory.mkdir(parents=True)
    log = open_log(_log_location(log_directory, partition), LogLoadReport())
    batches = [_batch(rng) for _ in range(_DISTINCT_BATCHES)]
    count = max(1, size_bytes // BATCH_BYTES)
    for number in range(count):
        timestamp = FIRST_TIMESTAMP + DAY_MS * number // count
        batch = _with_base_timestamp(batches[number % len(batches)], timestamp)
        log.append_as_leader(batch, leader_epoch=0, now_ms=timestamp)
    log.close(now_ms=FIRST_TIMESTAMP + DAY_MS)
    return log.log_end_offset


def _log_location(directory: Path, partition: TopicPartition) -> LoadLogParams:
    return LoadLogParams(
        directory=directory,
        partition=partition,
        settings=TopicSettings(segment_bytes=SEGMENT_BYTES),
        producer_settings=_PRODUCER_SETTINGS,
        now_ms=FIRST_TIMESTAMP,
    )


def _batch(rng: random.Random) -> bytes:
    """Build a batch whose timestamps start at 0; keys with low numbers are more frequent."""
    builder = BatchBuilder(BatchFields())
    timestamp = 0
    while builder.size_bytes < BATCH_BYTES - 200:
        key = b"user-%05d" % int(KEYS * rng.random() ** 3)
        builder.append(timestamp=timestamp, key=key, value=rng.randbytes(rng.randint(40, 140)))
        timestamp += rng.randint(0, 10)
    return bytes(builder.build())


_CHECKSUM = struct.Struct(">I")
_TIMESTAMPS = struct.Struct(">qq")
_CHECKSUM_POSITION, _CHECKSUM_INPUT_POSITION, _TIMESTAMPS_POSITION = 17, 21, 27


def _with_base_timestamp(batch: bytes, base_timestamp: int) -> memoryview:
    """Return the same batch with its timestamps shifted."""
    shifted = memoryview(bytearray(batch))
    first, last = _TIMESTAMPS.unpack_from(batch, _TIMESTAMPS_POSITION)
    _TIMESTAMPS.pack_into(
        shifted, _TIMESTAMPS_POSITION, base_timestamp + first, base_timestamp + last
    )
    _CHECKSUM.pack_into(shifted, _CHECKSUM_POSITION, crc32c(shifted[_CHECKSUM_INPUT_POSITION:]))
    return shifted
