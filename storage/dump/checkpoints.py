"""The small files of a partition and of a log directory: snapshots, checkpoints, who it belongs to.

They are read by the modules that own them.  Of a snapshot whose checksum is wrong the entries are
shown nevertheless, and of a text file that makes no sense the lines.

Owner: whoever dumps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.config import properties
from odradek.config.properties import PropertiesError
from odradek.storage import (
    clean_shutdown,
    leader_epochs,
    meta_properties,
    offset_checkpoints,
    partition_metadata,
)
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.dump import reading
from odradek.storage.dump.facts import Fact, Facts, Wishes, damage, shown
from odradek.storage.dump.reading import SegmentFile
from odradek.storage.meta_properties import DirectoryRefused
from odradek.storage.offset_checkpoints import OffsetCheckpoint
from odradek.storage.producers import snapshot
from odradek.storage.producers.snapshot import ENTRY, HEADER, ProducerSnapshotDamaged

_PRODUCER = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "last_timestamp",
    "coordinator_epoch",
    "transaction_first_offset",
)


def dump_snapshot(file: SegmentFile, wishes: Wishes) -> Facts:
    content = reading.whole(file.path)
    yield Fact(
        "file",
        {
            "content": "producer snapshot",
            "size_bytes": len(content),
            "base_offset": file.base_offset,
        },
    )
    try:
        snapshot.decode(content, path=file.path)
    except ProducerSnapshotDamaged as broken:
        yield damage(broken.why, position=0)
    entries = content[HEADER.size :]
    if wishes.bytes_max is not None:
        entries = entries[: max(0, wishes.bytes_max - HEADER.size)]
    for slot, fields in enumerate(
        ENTRY.iter_unpack(entries[: len(entries) // ENTRY.size * ENTRY.size])
    ):
        values = dict(zip(_PRODUCER, fields, strict=True))
        yield Fact("producer", values)
        latest = max(values["last_offset"], values["transaction_first_offset"])
        if file.base_offset is not None and latest >= file.base_offset:
            why = f"producer {values['producer_id']} has written at {latest}, after the snapshot"
            yield damage(why, position=HEADER.size + slot * ENTRY.size)


def dump_text(path: Path) -> Facts:
    """One of the files that are known by their names."""
    content = reading.whole(path)
    yield Fact(
        "file", {"content": _contents[path.name], "size_bytes": len(content), "base_offset": None}
    )
    try:
        yield from list(TEXT_FILES[path.name](path))
    except CheckpointDamaged as broken:
        yield damage(broken.why, line=broken.line)
        yield from _lines(content)
    except DirectoryRefused as refused:
        yield damage(str(refused).removeprefix(f"{path}:").strip())
        yield from _lines(content)


def _lines(content: bytes) -> Facts:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line:
            yield Fact("line", {"line": number, "text": shown(line)})


def _leader_epochs(path: Path) -> Facts:
    for epoch, start_offset in leader_epochs.read(path):
        yield Fact("leader_epoch", {"epoch": epoch, "start_offset": start_offset})


def _partition_offsets(checkpoint: OffsetCheckpoint) -> Callable[[Path], Facts]:
    def read(path: Path) -> Facts:
        for (topic, partition), offset in checkpoint.read(path.parent).items():
            values = {"topic": topic, "partition": partition, "offset": offset}
            yield Fact("partition_offset", values)

    return read


def _partition_metadata(path: Path) -> Facts:
    topic_id = partition_metadata.read(path.parent)
    if topic_id is not None:
        yield Fact("partition_metadata", {"topic_id": str(topic_id)})


def _meta_properties(path: Path) -> Facts:
    try:
        texts = properties.load(path).texts
    except PropertiesError as malformed:
        raise DirectoryRefused(str(malformed)) from malformed
    # A directory of KRaft's is refused by a broker of ours, but not damaged.
    if texts.get(meta_properties.VERSION, "").strip() != "1":
        meta_properties.read(path.parent)
    yield Fact("meta_properties", {"properties": dict(texts)})


def _clean_shutdown(path: Path) -> Facts:
    marker = clean_shutdown.read(path.parent)
    if marker is not None:
        yield Fact("clean_shutdown", {"broker_epoch": marker.broker_epoch})


_OFFSET_CHECKPOINTS = (
    offset_checkpoints.RECOVERY_POINTS,
    offset_checkpoints.HIGH_WATERMARKS,
    offset_checkpoints.LOG_START_OFFSETS,
    offset_checkpoints.CLEANER_OFFSETS,
)
#: File name -> who reads it; in the order in which a directory's files are dumped.
TEXT_FILES: Mapping[str, Callable[[Path], Facts]] = {
    meta_properties.FILE_NAME: _meta_properties,
    clean_shutdown.FILE_NAME: _clean_shutdown,
    **{each.name: _partition_offsets(each) for each in _OFFSET_CHECKPOINTS},
    partition_metadata.FILE_NAME: _partition_metadata,
    leader_epochs.FILE_NAME: _leader_epochs,
}
_contents = {
    meta_properties.FILE_NAME: "owner of the directory",
    clean_shutdown.FILE_NAME: "clean shutdown",
    offset_checkpoints.RECOVERY_POINTS.name: "recovery points",
    offset_checkpoints.HIGH_WATERMARKS.name: "high watermarks",
    offset_checkpoints.LOG_START_OFFSETS.name: "log start offsets",
    offset_checkpoints.CLEANER_OFFSETS.name: "cleaner offsets",
    partition_metadata.FILE_NAME: "topic of the log",
    leader_epochs.FILE_NAME: "leader epochs",
}
