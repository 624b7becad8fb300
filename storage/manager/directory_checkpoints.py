"""The offset checkpoints of one log directory: what its files say, and what they should.

A file is written only if what it should say has changed.  A checkpoint that makes no sense is
reported and counts as empty, which is safe: from a recovery point of 0 everything is recovered, a
log without a start begins at its first segment, and one without a high watermark begins with it at
its start.

A log that could not be opened keeps the lines it has, for whoever mends it.

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

#: In the order in which they are written: no start is beyond the high watermark after any crash.
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS)


class DirectoryCheckpoints:
    """The files of one directory."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._retained_partitions: set[TopicPartition] = set()
        self._file_contents: CheckpointContents = {}
        #: Which may say something else by now than when they were last written.
        self._interrupted: set[OffsetCheckpointFile] = set()

    def read(self, warn: Callable[[str], None]) -> None:
        """What the files say; ``notice`` is told of damage."""
        for checkpoint in (*CHECKPOINTS, CLEANER_OFFSETS):
            try:
                self._file_contents[checkpoint] = checkpoint.read(self.directory.path)
            except CorruptCheckpoint as error:
                warn(f"{error}; ignoring all offsets of this file")

    def offset(self, checkpoint: OffsetCheckpointFile, partition: TopicPartition) -> int | None:
        """What the file says of a partition."""
        return self._file_contents.get(checkpoint, {}).get(partition)

    def retain(self, partition: TopicPartition) -> None:
        """Its log could not be opened: what the files say of it stays in them."""
        self._retained_partitions.add(partition)

    def stop_retaining(self, partition: TopicPartition) -> None:
        """Its log, which could not be opened, is being deleted."""
        self._retained_partitions.discard(partition)

    @property
    def has_unloadable_logs(self) -> bool:
        return bool(self._retained_partitions)

    def compute_changes(
        self, logs: Iterable[HostedLog], cleaner_offsets: Offsets
    ) -> CheckpointContents:
        """What must be written for the files to be true of the logs, all that are here."""
        contents: dict[OffsetCheckpointFile, dict[TopicPartition, int]]
        contents = {checkpoint: self._retained_offsets(checkpoint) for checkpoint in CHECKPOINTS}
        for hosted_log in logs:
            log = hosted_log.log
            needs_recovery = hosted_log.needs_recovery
            contents[HIGH_WATERMARKS][log.partition] = log.high_watermark
            # What is in doubt may have been cut, and written anew since it was last synced.
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
        """Durable when it returns."""
        for checkpoint, offsets in contents.items():
            checkpoint.write(self.directory.path, offsets)

    def mark_written(self, contents: CheckpointContents) -> None:
        """``contents`` are in the files."""
        self._file_contents.update(contents)
        self._interrupted -= contents.keys()

    def mark_interrupted(self, contents: CheckpointContents) -> None:
        """Any of ``contents`` may be in the files, or not."""
        self._interrupted |= contents.keys()

    def _retained_offsets(self, checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int]:
        in_file = self._file_contents.get(checkpoint, {})
        return {
            partition: in_file[partition]
            for partition in self._retained_partitions & in_file.keys()
        }
