"""Partitions that Apache Kafka wrote: segments, producer snapshots, and what it reads in these.

Each is a directory named for what happened in it, with the ``.log`` and ``.snapshot`` files of the
partition and ``entries.json``, which says what DumpLogSegments printed of each snapshot.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PRODUCER_SNAPSHOTS = Path(__file__).resolve().parents[1] / "vectors" / "producer_snapshots"
ENTRIES = "entries.json"


@dataclass(frozen=True, slots=True)
class RecordedProducers:
    name: str
    segments: Mapping[int, bytes]
    snapshots: Mapping[int, bytes]
    entries: Mapping[int, list[dict[str, int | None]]]

    def save(self, directory: Path) -> None:
        target = directory / self.name
        target.mkdir(parents=True, exist_ok=True)
        for ending, contents in ((".log", self.segments), (".snapshot", self.snapshots)):
            for offset, content in contents.items():
                (target / f"{offset:020}{ending}").write_bytes(content)
        (target / ENTRIES).write_text(
            "{" + ",\n".join(map(_told, sorted(self.entries.items()))) + "}\n"
        )


def _told(snapshot: tuple[int, list[dict[str, int | None]]]) -> str:
    offset, entries = snapshot
    return f'"{offset}": [\n' + ",\n".join(map(json.dumps, entries)) + "]"


def recorded_producers(name: str) -> RecordedProducers:
    directory = PRODUCER_SNAPSHOTS / name
    told = json.loads((directory / ENTRIES).read_text())
    return RecordedProducers(
        name=name,
        segments=contents_by_offset(directory, ".log"),
        snapshots=contents_by_offset(directory, ".snapshot"),
        entries={int(offset): entries for offset, entries in told.items()},
    )


def names_of_recorded_producers() -> list[str]:
    return sorted(path.parent.name for path in PRODUCER_SNAPSHOTS.glob(f"*/{ENTRIES}"))


def contents_by_offset(directory: Path, ending: str) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in sorted(directory.glob(f"*{ending}"))}
