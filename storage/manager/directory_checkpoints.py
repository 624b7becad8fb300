"""The offset checkpoint files of one log directory: their contents on disk and in memory.

A file is written only if its contents have changed.  A corrupt checkpoint is reported and treated
as empty.  This is safe: with a recovery point of 0 the whole log is recovered, without a start
offset the log starts at its first segment, and without a high watermark it begins with the log
start offset.

The entries of a log that could not be opened stay in the files, for its later repair.

Owner: the event loop; ``write`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpointFile,
)

Offsets = Mapping[TopicPartition, int]
CheckpointContents = dict[OffsetCheckpointFile, Offsets]

#: In write order: after a crash the log start offset never exceeds the high watermark.
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS)


class DirectoryCheckpoints:
    """The checkpoint files of one directory."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._retained_partitions: set[TopicPartition] = set()
        self._file_contents: CheckpointContents = {}
        #: Files whose contents are unknown, because writing them was interrupted.
        self._interrupted: set[OffsetCheckpointFile] = set()

    def read(self, warn: Callable[[str], None]) -> None:
        """Read the files and pass a warning for each corrupt one to ``warn``."""
        for checkpoint in (*CHECKPOINTS, CLEANER_OFFSETS):
            try:
                self._file_contents[checkpoint] = checkpoint.read(self.directory.path)
            except CorruptCheckpoint as error:
                warn(f"{error}; ignoring all offsets of this file")

    def offset(self, checkpoint: OffsetCheckpointFile, partition: TopicPartition) -> int | None:
        """Return the offset in the file, as last read or written; None if there is none."""
        return self._file_contents.get(checkpoint, {}).get(partition)

    def retain(self, partition: TopicPartition) -> None:
        """Keep the entries of a partition whose log could not be opened."""
        self._retained_partitions.add(partition)

    def stop_retaining(self, partition: TopicPartition) -> None:
        """Drop the entries of a partition whose log could not be opened and is being deleted."""
        self._retained_partitions.discard(partition)

    @property
    def has_unloadable_logs(self) -> bool:
        return bool(self._retained_partitions)

    def compute_changes(
        self, logs: Iterable[HostedLog], cleaner_offsets: Offsets
    ) -> CheckpointContents:
        """Return the new contents of the files that are out of date.

        ``logs`` are all logs of this directory.
        """
        contents: dict[OffsetCheckpointFile, dict[TopicPartition, int]]
        contents = {checkpoint: self._retained_offsets(checkpoint) for checkpoint in CHECKPOINTS}
        for hosted_log in logs:
            log = hosted_log.log
            needs_recovery = hosted_log.needs_recovery
            contents[HIGH_WATERMARKS][log.partition] = log.high_watermark
            # A log that needs recovery may have been truncated and overwritten since its last
            # flush.
            contents[RECOVERY_POINTS][log.partition] = 0 if needs_recovery else log.recovery_point
            if (
                needs_recovery
                or hosted_log.is_deleting_segments
                or log.log_start_offset > log.segments.first.base_offset
            ):
                contents[LOG_START_OFFSETS][log.partition] = log.log_start_offset
        contents[CLEANER_OFFSETS] = {**self._retained_offsets(CLEANER_OFFSETS), **cleaner_offsets}
        return {
            checkpoint: offsets
            for checkpoint, offsets in contents.items()
            if offsets != self._file_contents.get(checkpoint) or checkpoint in self._interrupted
        }

    def write(self, contents: CheckpointContents) -> None:
        """Write the files.  The contents are durable on return."""
        for checkpoint, offsets in contents.items():
            checkpoint.write(self.directory.path, offsets)

    def mark_written(self, contents: CheckpointContents) -> None:
        """The files have these ``contents`` now."""
        self._file_contents.update(contents)
        self._interrupted -= contents.keys()

    def mark_interrupted(self, contents: CheckpointContents) -> None:
        """Some of the ``contents`` may have been written."""
        self._interrupted |= contents.keys()

    def _retained_offsets(self, checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int]:
        in_file = self._file_contents.get(checkpoint, {})
        return {
            partition: in_file[partition]
            for partition in self._retained_partitions & in_file.keys()
        }
