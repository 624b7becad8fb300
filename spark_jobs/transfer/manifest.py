"""What makes an export a whole one: the file ``_export.json``, which is written last.

It names every file of the export, with its size and its records.  Whoever reads the export without
it (a file of Parquet is one, wherever it is) reads what is there; its name begins with ``_``, as do
names that Spark and Arrow leave alone when they read a directory.

    _export-unfinished   is written first and removed last: an export is going on, or was broken off
    _export.json         it is whole

    both, or the second   a whole export
    the first             a part of one, which the next attempt removes
    neither               nothing of ours

Owner: the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.transfer.places import Place

MANIFEST = "_export.json"
UNFINISHED = "_export-unfinished"
FORMAT, VERSION = "odradek export", 1


@dataclass(frozen=True, slots=True)
class ExportFile:
    """Records of one partition and one date, in the order of offsets."""

    path: str  # relative to the export
    topic: str
    partition: int
    date: str
    first_offset: int
    last_offset: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ExportedPartition:
    """All records of a partition that could be read, from one offset to before the other."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Manifest:
    created_ms: int
    options: Mapping[str, str]  # what was asked for
    partition_counts: Mapping[str, int]  # how many each topic has
    partitions: tuple[ExportedPartition, ...]
    files: tuple[ExportFile, ...]
    damages: tuple[str, ...]  # what could not be read, and is not in it

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1).encode()

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)


class State(Enum):
    NOTHING = "there is nothing"
    UNFINISHED = "an export was broken off, or is going on"
    WHOLE = "there is a whole export"
    OTHER = "there is something else"


def state_of(place: Place) -> State:
    names = place.names()
    if not names:
        return State.NOTHING
    if MANIFEST in names:
        return State.WHOLE
    return State.UNFINISHED if UNFINISHED in names else State.OTHER


def begin(place: Place, *, overwrite: bool) -> None:
    """Make room for an export; ScanFailed if there is something that must not go."""
    state = state_of(place)
    if state is State.OTHER:
        raise ScanFailed("the directory is not empty, and what is in there is no export")
    if state is State.WHOLE and not overwrite:
        raise ScanFailed("there is a whole export already: --overwrite replaces it")
    # From here on, whatever is left is no whole export.
    place.write_whole(UNFINISHED, b"")
    if state is State.WHOLE:
        place.remove(MANIFEST)
    for name in place.names():
        if name != UNFINISHED:
            place.remove(name)


def finish(place: Place, manifest: Manifest) -> None:
    """All its files are written: the export is whole when this returns."""
    names = [file.path for file in manifest.files]
    # What attempts have left that did not end well.
    for leftover in set(place.files_below()) - {UNFINISHED, *names}:
        place.remove(leftover)
    place.keep_names(names)
    place.write_whole(MANIFEST, manifest.encode())
    place.remove(UNFINISHED)


def read(path: str) -> Manifest:
    """Of a whole export, whose files are all there; ScanFailed if it is none."""
    place = Place(path)
    content = place.read(MANIFEST)
    if content is None:
        raise ScanFailed(f"{path}: no export: {state_of(place).value}")
    try:
        manifest = _decode(json.loads(content))
    except (ValueError, KeyError, TypeError) as wrong:
        raise ScanFailed(f"{path}/{MANIFEST}: not what an export has: {wrong!r}") from wrong
    _check_files(path, place, manifest.files)
    return manifest


def _decode(told: dict[str, Any]) -> Manifest:
    if told["format"] != FORMAT or told["version"] != VERSION:
        raise ValueError(f"{told['format']}, version {told['version']}")
    return Manifest(
        created_ms=int(told["created_ms"]),
        options=dict(told["options"]),
        partition_counts=dict(told["partition_counts"]),
        partitions=tuple(ExportedPartition(**each) for each in told["partitions"]),
        files=tuple(ExportFile(**each) for each in told["files"]),
        damages=tuple(told["damages"]),
    )


def _check_files(path: str, place: Place, files: Iterable[ExportFile]) -> None:
    for file in files:
        size_bytes = place.size_of(file.path)
        if size_bytes is None:
            raise ScanFailed(f"{path}/{file.path}: missing, though the export has it")
        if size_bytes != file.size_bytes:
            raise ScanFailed(f"{path}/{file.path}: {size_bytes} bytes, not {file.size_bytes}")
