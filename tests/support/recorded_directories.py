"""Log directories that Apache Kafka wrote, and what it told of every partition in them.

Each is an archive, ``<name>.tar.xz``, of

    left/          the directory as a broker left it when it was stopped or killed
    recovered/     the same once a broker had started on it, been asked, and been stopped cleanly
    expected.json  what that broker answered

Numbers that Kafka has not are -1, as it writes them.
"""

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.java_client import SeenRecord

DATA_DIRECTORIES = Path(__file__).resolve().parents[1] / "vectors" / "data_directories"
ENDING = ".tar.xz"
LEFT, RECOVERED, EXPECTED = "left", "recovered", "expected.json"


@dataclass(frozen=True, slots=True)
class FoundTimestamp:
    """The first record at or after the time ``asked``, or the first of the largest timestamp."""

    asked: int
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class KnownProducer:
    """DescribeProducers, and of the last snapshot ``last_data_offset`` and ``offset_delta``."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int
    last_offset: int
    offset_delta: int


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """An entry of a .txnindex file."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a Fetch of one partition brought; ``checksum`` is the CRC-32 of the record bytes."""

    offset: int
    max_bytes: int
    is_committed: bool
    size_bytes: int
    checksum: int
    aborted: tuple[tuple[int, int], ...]  # producer id, first offset


@dataclass(frozen=True, slots=True)
class RecordedPartition:
    topic: str
    partition: int
    records: tuple[SeenRecord, ...]
    committed_offsets: tuple[int, ...]  # of the records that a consumer with read_committed saw
    start_offset: int
    end_offset: int
    last_stable_offset: int
    largest_timestamp: FoundTimestamp | None  # None where Kafka refuses to look for timestamps
    timestamps: tuple[FoundTimestamp, ...]
    producers: tuple[KnownProducer, ...]
    aborted: tuple[AbortedEntry, ...]
    fetches: tuple[Fetched, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        told["records"] = [record.to_json() for record in self.records]
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        largest = told["largest_timestamp"]
        return cls(
            topic=told["topic"],
            partition=told["partition"],
            records=tuple(SeenRecord.from_json(fields) for fields in told["records"]),
            committed_offsets=tuple(told["committed_offsets"]),
            start_offset=told["start_offset"],
            end_offset=told["end_offset"],
            last_stable_offset=told["last_stable_offset"],
            largest_timestamp=largest and FoundTimestamp(**largest),
            timestamps=tuple(FoundTimestamp(**fields) for fields in told["timestamps"]),
            producers=tuple(KnownProducer(**fields) for fields in told["producers"]),
            aborted=tuple(AbortedEntry(**fields) for fields in told["aborted"]),
            fetches=tuple(
                Fetched(**{**fields, "aborted": tuple(map(tuple, fields["aborted"]))})
                for fields in told["fetches"]
            ),
        )


@dataclass(frozen=True, slots=True)
class RecordedDirectory:
    name: str
    recorded_with: str
    recorded_at_ms: int  # when the answers were given: what is too old depends on it
    broker: Mapping[str, str]  # the settings that are not Kafka's defaults
    topics: Mapping[str, Mapping[str, str]]  # and those of each topic
    partitions: tuple[RecordedPartition, ...]

    def save(self, target: Path, *, left: Path, recovered: Path) -> None:
        told = {
            "recorded_with": self.recorded_with,
            "recorded_at_ms": self.recorded_at_ms,
            "broker": self.broker,
            "topics": self.topics,
            "partitions": [partition.to_json() for partition in self.partitions],
        }
        expected = json.dumps(told, separators=(",", ":")).encode()
        with tarfile.open(target / f"{self.name}{ENDING}", "w:xz", preset=9) as archive:
            archive.add(left, LEFT, filter=_without_owner)
            archive.add(recovered, RECOVERED, filter=_without_owner)
            member = tarfile.TarInfo(EXPECTED)
            member.size = len(expected)
            archive.addfile(member, io.BytesIO(expected))

    @classmethod
    def unpack(cls, name: str, into: Path, *, source: Path = DATA_DIRECTORIES) -> Self:
        """``into`` gets the directories LEFT and RECOVERED."""
        with tarfile.open(source / f"{name}{ENDING}") as archive:
            archive.extractall(into, filter="data")
        told = json.loads((into / EXPECTED).read_bytes())
        return cls(
            name=name,
            recorded_with=told["recorded_with"],
            recorded_at_ms=told["recorded_at_ms"],
            broker=told["broker"],
            topics=told["topics"],
            partitions=tuple(RecordedPartition.from_json(fields) for fields in told["partitions"]),
        )


def names_of_recorded_directories(source: Path = DATA_DIRECTORIES) -> list[str]:
    return sorted(path.name.removesuffix(ENDING) for path in source.glob(f"*{ENDING}"))


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
