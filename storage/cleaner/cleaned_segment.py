"""The output segment of compaction: a ``.cleaned`` file and its indexes.

Readers do not see these files until segment_swap.py renames them.  Batches are buffered and written
many at a time; each batch is indexed as it is appended.

Invariant: when ``finish`` returns, all files of the segment are flushed.  They survive a power cut
once the directory is flushed too.  Before that the files are incomplete and must not be used.
Owner: the worker process.
"""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.errors import CorruptMessage, RecordListTooLarge
from odradek.storage import files
from odradek.storage.cleaner.record_filter import RetainedBatch
from odradek.storage.log_segment import (
    SEGMENT_BYTES_MAX,
    LogSegment,
    SegmentConfig,
)
from odradek.storage.paths import SEGMENT_FILE_TYPES, FileStage, LogFileType, file_path
from odradek.storage.transaction_index import AbortedTxn


class CleanedSegment:
    """A segment that is being written."""

    def __init__(
        self, directory: Path, base_offset: int, config: SegmentConfig, *, buffer_bytes: int
    ) -> None:
        for file_type in SEGMENT_FILE_TYPES:
            files.remove(file_path(directory, base_offset, file_type, FileStage.CLEANED))
        self._segment = LogSegment(directory, base_offset, config, stage=FileStage.CLEANED)
        self._buffer_bytes = buffer_bytes
        self._pending: list[files.Buffer] = []
        self._pending_bytes = 0
        self._written_bytes = 0
        self.next_offset = base_offset
        self.record_count = 0

    @property
    def size_bytes(self) -> int:
        return self._written_bytes + self._pending_bytes

    def append(self, retained: RetainedBatch) -> None:
        """Append a batch.  Batches must come in ascending order of their offsets."""
        buffer, last_offset, max_timestamp, count, _ = retained
        if last_offset < self.next_offset:
            raise CorruptMessage(
                f"{self._segment}: batch ends at offset {last_offset}, "
                f"expected at least {self.next_offset}"
            )
        if not self._segment.offset_index.can_append_offset(last_offset):
            raise CorruptMessage(
                f"{self._segment}: offset {last_offset} is too far from the base offset"
            )
        position, size = self.size_bytes, len(buffer)
        if position + size > SEGMENT_BYTES_MAX:
            raise RecordListTooLarge(
                f"{self._segment}: exceeds the maximum segment size after compaction"
            )
        self._segment.index_batch(position, size, last_offset, max_timestamp)
        self._pending.append(buffer)
        self._pending_bytes += size
        self.next_offset = last_offset + 1
        self.record_count += count
        if self._pending_bytes >= self._buffer_bytes:
            self._write()

    def append_aborted_txn(self, aborted_txn: AbortedTxn) -> None:
        """Add an aborted transaction whose abort marker is in this segment and is retained."""
        self._segment.transaction_index.append(aborted_txn)

    def finish(self, *, modified_ns: int) -> None:
        """Write and flush everything.

        ``modified_ns`` becomes the modification time of the log file: retention uses it where
        records have no timestamps.
        """
        segment = self._segment
        self._write()
        for file_type in (LogFileType.LOG, LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX):
            # Create the file even if it has no entries, because the log loader expects it.
            files.system.close(files.open_for_writing(segment.path(file_type)))
        segment.finish_recovery(size_bytes=self._written_bytes)
        files.set_modified_ns(segment.path(LogFileType.LOG), modified_ns)
        segment.flush()
        segment.close_handlers()

    def remove(self) -> None:
        """Remove the files of a segment that is not needed or was not finished."""
        self._segment.remove()

    def _write(self) -> None:
        if self._pending:
            files.write_at(self._segment.file.descriptor, self._pending, self._written_bytes)
            self._written_bytes += self._pending_bytes
            self._pending, self._pending_bytes = [], 0
