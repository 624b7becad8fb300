"""The manifest of an export: the file ``_export.json``, which is written last.

It lists every file of the export, with its size and its record count.  A reader that ignores the
manifest (each Parquet file can be read by itself) sees the files that exist.  The name begins with
``_``, because Spark and Arrow ignore such names when they read a directory.

    _export-unfinished   written first and removed last: an export is running, or was interrupted
    _export.json         the export is complete

    both, or the second   a complete export
    the first             a partial export, which the next attempt removes
    neither               not an export

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
    """Records of one partition and one date, in offset order."""

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
    """All readable records of a partition from ``start_offset`` to below ``end_offset``."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Manifest:
    created_ms: int
    options: Mapping[str, str]  # as passed to the export
    partition_counts: Mapping[str, int]  # the number of partitions of each topic
    partitions: tuple[ExportedPartition, ...]
    files: tuple[ExportFile, ...]
    damages: tuple[str, ...]  # ranges that could not be read, and are not in the export

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1).encode()

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)


class ExportState(Enum):
    EMPTY = "the directory is empty"
    UNFINISHED = "an export was interrupted or is still running"
    COMPLETE = "the directory contains a complete export"
    FOREIGN = "the directory contains other files"


def export_state(directory: ExportDirectory) -> ExportState:
    names = directory.list_names()
    if not names:
        return ExportState.EMPTY
    if MANIFEST_FILE in names:
        return ExportState.COMPLETE
    return ExportState.UNFINISHED if UNFINISHED_FILE in names else ExportState.FOREIGN


def begin_export(directory: ExportDirectory, *, overwrite: bool) -> None:
    """Clear the directory for an export.  Raises ScanFailed if its content must be kept."""
    state = export_state(directory)
    if state is ExportState.FOREIGN:
        raise ScanFailed("the directory is not empty, and its content is not an export")
    if state is ExportState.COMPLETE and not overwrite:
        raise ScanFailed(
            "the directory already contains a complete export: use --overwrite to replace it"
        )
    # From here on, the content of the directory is not a complete export.
    directory.write_atomically(UNFINISHED_FILE, b"")
    if state is ExportState.COMPLETE:
        directory.remove(MANIFEST_FILE)
    for name in directory.list_names():
        if name != UNFINISHED_FILE:
            directory.remove(name)


def finish_export(directory: ExportDirectory, manifest: Manifest) -> None:
    """Complete an export whose files have all been written."""
    names = [file.path for file in manifest.files]
    # Remove the files of failed attempts.
    for leftover in set(directory.list_files()) - {UNFINISHED_FILE, *names}:
        directory.remove(leftover)
    directory.sync_directories(names)
    directory.write_atomically(MANIFEST_FILE, manifest.encode())
    directory.remove(UNFINISHED_FILE)


def read_manifest(path: str) -> Manifest:
    """Read the manifest and check that all files exist.  Raises ScanFailed if incomplete."""
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
