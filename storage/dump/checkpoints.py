"""Dumps the small files of a partition and of a log directory: snapshots, checkpoints, properties.

The modules that own these files read them.  The entries of a snapshot are shown even if its
checksum is wrong, and so are the lines of a text file that cannot be parsed.

Owner: the dump command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.config import properties
from odradek.config.properties import PropertiesError
from odradek.storage import (
    clean_shutdown,
    leader_epoch_file_cache,
    meta_properties,
    offset_checkpoints,
    partition_metadata,
)
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.dump import file_reader
from odradek.storage.dump.file_reader import SegmentFile
from odradek.storage.dump.items import DumpItem, DumpItems, DumpOptions, damage_item, printable
from odradek.storage.meta_properties import InvalidLogDirectory
from odradek.storage.offset_checkpoints import OffsetCheckpointFile
from odradek.storage.producer_state import snapshot
from odradek.storage.producer_state.snapshot import ENTRY, HEADER, CorruptSnapshot

_PRODUCER_FIELDS = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "last_timestamp",
    "coordinator_epoch",
    "transaction_first_offset",
)


def dump_snapshot(file: SegmentFile, options: DumpOptions) -> DumpItems:
    content = file_reader.read_whole(file.path)
    yield DumpItem(
        "file",
        {
            "content": "producer snapshot",
            "size_bytes": len(content),
            "base_offset": file.base_offset,
        },
    )
    try:
        snapshot.decode(content, path=file.path)
    except CorruptSnapshot as error:
        yield damage_item(error.reason, position=0)
    entries = content[HEADER.size :]
    if options.bytes_max is not None:
        entries = entries[: max(0, options.bytes_max - HEADER.size)]
    for slot, fields in enumerate(
        ENTRY.iter_unpack(entries[: len(entries) // ENTRY.size * ENTRY.size])
    ):
        values = dict(zip(_PRODUCER_FIELDS, fields, strict=True))
        yield DumpItem("producer", values)
        latest = max(values["last_offset"], values["transaction_first_offset"])
        if file.base_offset is not None and latest >= file.base_offset:
            reason = (
                f"producer {values['producer_id']} has offset {latest}, at or after the snapshot"
            )
            yield damage_item(reason, position=HEADER.size + slot * ENTRY.size)


def dump_text(path: Path) -> DumpItems:
    """Dump one of ``TEXT_FILES``."""
    content = file_reader.read_whole(path)
    yield DumpItem(
        "file",
        {"content": _DESCRIPTIONS[path.name], "size_bytes": len(content), "base_offset": None},
    )
    try:
        yield from list(TEXT_FILES[path.name](path))
    except CorruptCheckpoint as error:
        yield damage_item(error.reason, line=error.line)
        yield from _raw_lines(content)
    except InvalidLogDirectory as invalid:
        yield damage_item(str(invalid).removeprefix(f"{path}:").strip())
        yield from _raw_lines(content)


def _raw_lines(content: bytes) -> DumpItems:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line:
            yield DumpItem("line", {"line": number, "text": printable(line)})


def _leader_epochs(path: Path) -> DumpItems:
    for epoch, start_offset in leader_epoch_file_cache.read(path):
        yield DumpItem("leader_epoch", {"epoch": epoch, "start_offset": start_offset})


def _partition_offsets(checkpoint: OffsetCheckpointFile) -> Callable[[Path], DumpItems]:
    def read(path: Path) -> DumpItems:
        for (topic, partition), offset in checkpoint.read(path.parent).items():
            values = {"topic": topic, "partition": partition, "offset": offset}
            yield DumpItem("partition_offset", values)

    return read


def _partition_metadata(path: Path) -> DumpItems:
    topic_id = partition_metadata.read(path.parent)
    if topic_id is not None:
        yield DumpItem("partition_metadata", {"topic_id": str(topic_id)})


def _meta_properties(path: Path) -> DumpItems:
    try:
        values = properties.load(path).values
    except PropertiesError as error:
        raise InvalidLogDirectory(str(error)) from error
    # A log directory of KRaft is not damaged, although this broker rejects it.
    if values.get(meta_properties.VERSION, "").strip() != "1":
        meta_properties.read(path.parent)
    yield DumpItem("meta_properties", {"properties": dict(values)})


def _clean_shutdown(path: Path) -> DumpItems:
    marker = clean_shutdown.read(path.parent)
    if marker is not None:
        yield DumpItem("clean_shutdown", {"broker_epoch": marker.broker_epoch})


_OFFSET_CHECKPOINTS = (
    offset_checkpoints.RECOVERY_POINTS,
    offset_checkpoints.HIGH_WATERMARKS,
    offset_checkpoints.LOG_START_OFFSETS,
    offset_checkpoints.CLEANER_OFFSETS,
)
#: File name -> its reader, in the order in which a directory's files are dumped.
TEXT_FILES: Mapping[str, Callable[[Path], DumpItems]] = {
    meta_properties.FILE_NAME: _meta_properties,
    clean_shutdown.FILE_NAME: _clean_shutdown,
    **{checkpoint.name: _partition_offsets(checkpoint) for checkpoint in _OFFSET_CHECKPOINTS},
    partition_metadata.FILE_NAME: _partition_metadata,
    leader_epoch_file_cache.FILE_NAME: _leader_epochs,
}
_DESCRIPTIONS = {
    meta_properties.FILE_NAME: "log directory metadata",
    clean_shutdown.FILE_NAME: "clean shutdown",
    offset_checkpoints.RECOVERY_POINTS.name: "recovery points",
    offset_checkpoints.HIGH_WATERMARKS.name: "high watermarks",
    offset_checkpoints.LOG_START_OFFSETS.name: "log start offsets",
    offset_checkpoints.CLEANER_OFFSETS.name: "cleaner offsets",
    partition_metadata.FILE_NAME: "partition metadata",
    leader_epoch_file_cache.FILE_NAME: "leader epochs",
}
