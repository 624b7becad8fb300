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
from odradek.spark_jobs.transfer.export_directory import ExportDirectory

MANIFEST_FILE = "_export.json"
UNFINISHED_FILE = "_export-unfinished"
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


class ExportState(Enum):
    EMPTY = "there is nothing"
    UNFINISHED = "an export was broken off, or is going on"
    COMPLETE = "there is a whole export"
    FOREIGN = "there is something else"


def export_state(directory: ExportDirectory) -> ExportState:
    names = directory.list_names()
    if not names:
        return ExportState.EMPTY
    if MANIFEST_FILE in names:
        return ExportState.COMPLETE
    return ExportState.UNFINISHED if UNFINISHED_FILE in names else ExportState.FOREIGN


def begin_export(directory: ExportDirectory, *, overwrite: bool) -> None:
    """Make room for an export; ScanFailed if there is something that must not go."""
    state = export_state(directory)
    if state is ExportState.FOREIGN:
        raise ScanFailed("the directory is not empty, and what is in there is no export")
    if state is ExportState.COMPLETE and not overwrite:
        raise ScanFailed("there is a whole export already: --overwrite replaces it")
    # From here on, whatever is left is no whole export.
    directory.write_atomically(UNFINISHED_FILE, b"")
    if state is ExportState.COMPLETE:
        directory.remove(MANIFEST_FILE)
    for name in directory.list_names():
        if name != UNFINISHED_FILE:
            directory.remove(name)


def finish_export(directory: ExportDirectory, manifest: Manifest) -> None:
    """All its files are written: the export is whole when this returns."""
    names = [file.path for file in manifest.files]
    # What attempts have left that did not end well.
    for leftover in set(directory.list_files()) - {UNFINISHED_FILE, *names}:
        directory.remove(leftover)
    directory.sync_directories(names)
    directory.write_atomically(MANIFEST_FILE, manifest.encode())
    directory.remove(UNFINISHED_FILE)


def read_manifest(path: str) -> Manifest:
    """Of a whole export, whose files are all there; ScanFailed if it is none."""
    directory = ExportDirectory(path)
    content = directory.read(MANIFEST_FILE)
    if content is None:
        raise ScanFailed(f"{path}: no complete export: {export_state(directory).value}")
    try:
        manifest = _decode(json.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        raise ScanFailed(f"{path}/{MANIFEST_FILE}: invalid manifest: {error!r}") from error
    _check_files(path, directory, manifest.files)
    return manifest


def _decode(document: dict[str, Any]) -> Manifest:
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(f"{document['format']}, version {document['version']}")
    return Manifest(
        created_ms=int(document["created_ms"]),
        options=dict(document["options"]),
        partition_counts=dict(document["partition_counts"]),
        partitions=tuple(ExportedPartition(**fields) for fields in document["partitions"]),
        files=tuple(ExportFile(**fields) for fields in document["files"]),
        damages=tuple(document["damages"]),
    )


def _check_files(path: str, directory: ExportDirectory, files: Iterable[ExportFile]) -> None:
    for file in files:
        size_bytes = directory.size_of(file.path)
        if size_bytes is None:
            raise ScanFailed(f"{path}/{file.path}: missing, but listed in the manifest")
        if size_bytes != file.size_bytes:
            raise ScanFailed(f"{path}/{file.path}: {size_bytes} bytes, not {file.size_bytes}")
