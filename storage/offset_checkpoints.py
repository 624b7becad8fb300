"""The four files of a log directory that hold one offset for each partition in it.

    recovery-point-offset-checkpoint    flushed up to here; recovery starts at this offset
    replication-offset-checkpoint       high watermark: replicated up to here
    log-start-offset-checkpoint         records before it were deleted on request; a partition whose
                                        log starts at its first segment's base offset has no line
    cleaner-offset-checkpoint           compacted up to here

A line is ``topic partition offset``; the order of lines has no meaning.  For how the files are
written and what counts as damage see checkpoint.py.  Kafka: OffsetCheckpointFile.

Owner: none; holds no state, any thread.
"""

from collections.abc import Mapping
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import checkpoint, files
from odradek.storage.checkpoint import (
    INT32_MAX,
    INT64_MAX,
    CorruptCheckpoint,
    parse_number,
    split_fields,
)
from odradek.storage.paths import is_valid_topic_name


class OffsetCheckpointFile:
    """One of the four files, in any log directory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, directory: Path) -> dict[TopicPartition, int]:
        """Return no offsets if there is no file; raise CorruptCheckpoint if it is invalid."""
        path = directory / self.name
        return self.decode(files.read(path) or b"", path=path)

    def decode(self, content: bytes, *, path: Path) -> dict[TopicPartition, int]:
        """Parse the content of a file; ``path`` is only used in error messages."""
        entries = checkpoint.decode(content, _parse_entry, path=path)
        offsets = dict(entries)
        if len(offsets) < len(entries):
            raise _duplicate_entry_error(entries, path)
        return offsets

    def write(self, directory: Path, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file durably.  May run on a disk thread, one write per file at a time."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        checkpoint.write(directory / self.name, lines)


RECOVERY_POINTS = OffsetCheckpointFile("recovery-point-offset-checkpoint")
HIGH_WATERMARKS = OffsetCheckpointFile("replication-offset-checkpoint")
LOG_START_OFFSETS = OffsetCheckpointFile("log-start-offset-checkpoint")
CLEANER_OFFSETS = OffsetCheckpointFile("cleaner-offset-checkpoint")


def _parse_entry(line: bytes) -> tuple[TopicPartition, int]:
    topic, partition, offset = split_fields(line, count=3)
    name = topic.decode("ascii", errors="backslashreplace")
    if not is_valid_topic_name(name):
        raise ValueError(f"invalid topic name {name!r}")
    return (
        TopicPartition(name, parse_number(partition, max_value=INT32_MAX)),
        parse_number(offset, max_value=INT64_MAX),
    )


def _duplicate_entry_error(
    entries: list[tuple[TopicPartition, int]], path: Path
) -> CorruptCheckpoint:
    seen = set()
    for line, (partition, _) in enumerate(entries, start=3):
        if partition in seen:
            return CorruptCheckpoint(path, line=line, reason=f"{partition} has a duplicate line")
        seen.add(partition)
    raise AssertionError("no partition has two lines")
