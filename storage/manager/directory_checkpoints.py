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
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
)

Offsets = Mapping[TopicPartition, int]
Contents = dict[OffsetCheckpoint, Offsets]

#: In the order in which they are written: no start is beyond the high watermark after any crash.
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS)


class DirectoryCheckpoints:
    """The files of one directory."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._kept: set[TopicPartition] = set()
        self._in_files: Contents = {}
        #: Which may say something else by now than when they were last written.
        self._broken_off: set[OffsetCheckpoint] = set()

    def read(self, notice: Callable[[str], None]) -> None:
        """What the files say; ``notice`` is told of damage."""
        for checkpoint in (*CHECKPOINTS, CLEANER_OFFSETS):
            try:
                self._in_files[checkpoint] = checkpoint.read(self.directory.path)
            except CheckpointDamaged as damage:
                notice(f"{damage}; all of its offsets are forgotten")

    def offset(self, checkpoint: OffsetCheckpoint, partition: TopicPartition) -> int | None:
        """What the file says of a partition."""
        return self._in_files.get(checkpoint, {}).get(partition)

    def keep(self, partition: TopicPartition) -> None:
        """Its log could not be opened: what the files say of it stays in them."""
        self._kept.add(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Its log, which could not be opened, is being deleted."""
        self._kept.discard(partition)

    @property
    def has_refused_logs(self) -> bool:
        return bool(self._kept)

    def changes(self, logs: Iterable[HostedLog], cleaner_offsets: Offsets) -> Contents:
        """What must be written for the files to be true of the logs, all that are here."""
        wanted: dict[OffsetCheckpoint, dict[TopicPartition, int]]
        wanted = {checkpoint: self._kept_lines(checkpoint) for checkpoint in CHECKPOINTS}
        for hosted in logs:
            log = hosted.log
            is_in_doubt = hosted.is_in_doubt
            wanted[HIGH_WATERMARKS][log.partition] = log.high_watermark
            # What is in doubt may have been cut, and written anew since it was last synced.
            wanted[RECOVERY_POINTS][log.partition] = 0 if is_in_doubt else log.recovery_point
            if (
                is_in_doubt
                or hosted.is_shedding
                or log.start_offset > log.segments.first.base_offset
            ):
                wanted[LOG_START_OFFSETS][log.partition] = log.start_offset
        wanted[CLEANER_OFFSETS] = {**self._kept_lines(CLEANER_OFFSETS), **cleaner_offsets}
        return {
            checkpoint: offsets
            for checkpoint, offsets in wanted.items()
            if offsets != self._in_files.get(checkpoint) or checkpoint in self._broken_off
        }

    def write(self, contents: Contents) -> None:
        """Durable when it returns."""
        for checkpoint, offsets in contents.items():
            checkpoint.write(self.directory.path, offsets)

    def written(self, contents: Contents) -> None:
        """``contents`` are in the files."""
        self._in_files.update(contents)
        self._broken_off -= contents.keys()

    def broken_off(self, contents: Contents) -> None:
        """Any of ``contents`` may be in the files, or not."""
        self._broken_off |= contents.keys()

    def _kept_lines(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        in_file = self._in_files.get(checkpoint, {})
        return {partition: in_file[partition] for partition in self._kept & in_file.keys()}
