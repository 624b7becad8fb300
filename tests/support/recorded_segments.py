"""Segments that Apache Kafka wrote, and what its own tools read in them.

Each is a pair of files: ``<name>.log``, the segment, and ``<name>.json``, which says what
DumpLogSegments printed of its batches and what the Java consumer returned of its records.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.java_client import SeenRecord

SEGMENTS = Path(__file__).resolve().parents[1] / "vectors" / "segments"


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch, or one message of the old formats, as DumpLogSegments describes it."""

    position: int
    size: int
    magic: int
    codec: str
    crc: int
    timestamp_type: str
    timestamp: int  # the largest in the batch
    last_offset: int
    # What only magic 2 has:
    base_offset: int | None = None
    count: int | None = None
    base_sequence: int | None = None
    last_sequence: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    partition_leader_epoch: int | None = None
    is_transactional: bool = False
    is_control: bool = False
    marker: str | None = None  # COMMIT or ABORT, in control batches
    coordinator_epoch: int | None = None

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self).items()
        return {name: fact for name, fact in facts if fact is not None and fact is not False}


@dataclass(frozen=True, slots=True)
class RecordedSegment:
    name: str
    recorded_with: Mapping[str, str]
    log: bytes
    batches: tuple[StoredBatch, ...]
    records: tuple[SeenRecord, ...]
    committed_offsets: tuple[int, ...]  # what a consumer with read_committed returned

    def save(self, directory: Path) -> None:
        (directory / f"{self.name}.log").write_bytes(self.log)
        (directory / f"{self.name}.json").write_text(
            f'{{"recorded_with": {json.dumps(dict(self.recorded_with))},\n'
            f'"batches": [\n{_lines(batch.to_json() for batch in self.batches)}\n],\n'
            f'"records": [\n{_lines(record.to_json() for record in self.records)}\n],\n'
            f'"committed_offsets": {json.dumps(self.committed_offsets)}}}\n'
        )

    @classmethod
    def load(cls, directory: Path, name: str) -> Self:
        told = json.loads((directory / f"{name}.json").read_text())
        return cls(
            name=name,
            recorded_with=told["recorded_with"],
            log=(directory / f"{name}.log").read_bytes(),
            batches=tuple(StoredBatch(**fields) for fields in told["batches"]),
            records=tuple(SeenRecord.from_json(fields) for fields in told["records"]),
            committed_offsets=tuple(told["committed_offsets"]),
        )


def names_of_recorded_segments(directory: Path = SEGMENTS) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.log"))


def _lines(objects: Iterable[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(each) for each in objects)
