"""Log directories of several topics, made up at random, with every fact about them kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.storage.paths import LogFileType, file_path
from tests.support.batches import batch_of

FIRST_MS = 1_700_000_000_000
PARTITIONS = {"clicks": 2, "orders": 1}
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


@dataclass(frozen=True, slots=True)
class MadeBatch:
    topic: str
    partition: int
    codec: Codec
    records: tuple[Record, ...]  # none: a marker
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MadeRecord:
    topic: str
    partition: int
    record: Record


class MadeUpTopics:
    """In two segments each, of which the last batches are a transaction that is committed."""

    def __init__(self, directory: Path, *, seed: int, batches: int = 24) -> None:
        self.path = directory
        self.batches: list[MadeBatch] = []
        self._random = Random(seed)
        for topic, count in PARTITIONS.items():
            for partition in range(count):
                self._write(topic, partition, batches)

    @property
    def records(self) -> list[MadeRecord]:
        """In the order of their offsets within each partition."""
        return [
            MadeRecord(batch.topic, batch.partition, record)
            for batch in self.batches
            for record in batch.records
        ]

    def _write(self, topic: str, partition: int, count: int) -> None:
        directory = self.path / f"{topic}-{partition}"
        directory.mkdir(parents=True)
        half = count // 2
        offset = self._write_segment(directory, 0, self._made(topic, partition, half, 0))
        self._write_segment(directory, offset, self._made(topic, partition, count - half, offset))

    def _write_segment(self, directory: Path, base: int, made: Iterator[bytes]) -> int:
        file_path(directory, base, LogFileType.LOG).write_bytes(b"".join(made))
        return base + sum(self._counts)

    def _made(self, topic: str, partition: int, count: int, offset: int) -> Iterator[bytes]:
        self._counts: list[int] = []
        for number in range(count):
            is_last = number == count - 1
            codec = self._random.choice(list(Codec))
            records = tuple(self._records(offset))
            fields = {**PRODUCER, "base_sequence": 0, "is_transactional": True} if is_last else {}
            batch = bytes(batch_of(*records, base_offset=offset, codec=codec, **fields))
            self._note(MadeBatch(topic, partition, codec, records, len(batch)))
            yield batch
            offset += len(records)
            if is_last:
                yield self._marker(topic, partition, offset)

    def _records(self, offset: int) -> Iterator[Record]:
        """Keys of which few are hot, some of nothing; times that go on, but not always."""
        draw = self._random
        for at in range(offset, offset + draw.randint(1, 9)):
            key = b"k%d" % int(draw.expovariate(0.3)) if draw.random() < 0.9 else None
            value = bytes(draw.randint(0, 300)) if draw.random() < 0.9 else None
            late_ms = draw.randint(1, 200_000) if draw.random() < 0.2 else 0
            yield Record(at, FIRST_MS + 7000 * at - late_ms, key, value, ())

    def _marker(self, topic: str, partition: int, offset: int) -> bytes:
        marker = EndTransactionMarker(is_commit=True, coordinator_epoch=0)
        batch = build_marker_batch(marker, timestamp=FIRST_MS, base_offset=offset, **PRODUCER)
        self._note(MadeBatch(topic, partition, Codec.NONE, (), len(batch)))
        return bytes(batch)

    def _note(self, batch: MadeBatch) -> None:
        self.batches.append(batch)
        self._counts.append(len(batch.records) or 1)
