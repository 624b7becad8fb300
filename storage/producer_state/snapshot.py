"""The ``.snapshot`` files of a partition: the state of its producers at an offset.

Kafka: ProducerStateManager.readSnapshot and writeSnapshot.

The file name is the offset up to which the log had been read.  The content is big-endian:

    version             int16    1
    checksum            uint32   CRC-32C of all that follows
    count               int32    of entries, each:
      producer id               int64
      producer epoch            int16
      last sequence             int32    -1 if no batch is known
      last offset               int64    of the last batch; -1 if none is known
      offset delta              int32    between the first and the last offset of that batch
      last timestamp            int64
      coordinator epoch         int32    -1 if no transaction has ended
      transaction first offset  int64    -1 if no transaction is open

Of the last five batches of a producer the snapshot holds only the newest.  The others are restored
from the log, so that a retry of any of them is recognised: batch_metadata_recovery.py.

A snapshot is written in place.  After a crash it may be incomplete, or full of zeros if it was not
flushed.  The checksum detects this, and the previous snapshot plus the log from there on give the
same state.  Therefore a snapshot that is taken when a segment is rolled need not be flushed before
the next append.

But a snapshot beyond the end of a truncated log must never reappear, because the log grows past
that offset again with other batches.  The code that removes it must flush the directory before the
next append.

Owner: the event loop.
"""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from struct import Struct

from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.records.batch import NO_SEQUENCE
from odradek.protocol.records.crc32c import crc32c
from odradek.storage import files
from odradek.storage.paths import FileStage, LogFileType, file_path, parse_file_name
from odradek.storage.producer_state.producer_state_entry import PACKED_BATCH, ProducerStateEntry

VERSION = 1
HEADER = Struct(">hIi")
ENTRY = Struct(">qhiqiqiq")
_CHECKSUM_POSITION = 2
_CHECKSUM = Struct(">I")
_CHECKED_FROM_POSITION = 6

_NO_OFFSET = -1
# A ProducerStateEntry packs sequence, offset and delta as this file does.  Copying the packed bytes
# halves the time of a snapshot of 100,000 producers, which is taken while appends wait.
_BATCH = Struct(">iqi")
_BATCH_BYTES = _BATCH.size
_NO_BATCH = _BATCH.pack(NO_SEQUENCE, _NO_OFFSET, 0)
_ENTRY_WITH_PACKED_BATCH = Struct(f">qh{_BATCH_BYTES}sqiq")

ProducerStateEntries = Mapping[int, ProducerStateEntry]


class CorruptSnapshot(KafkaStorageError):
    """A snapshot that failed validation.  An older snapshot or the log replaces it."""

    def __init__(self, path: Path, *, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class ProducerSnapshots:
    """The snapshots in the directory of a partition, by offset.

    The directory is listed once: no other code may add or remove snapshots in the meantime.
    """

    __slots__ = ("directory", "offsets")

    def __init__(self, directory: Path, offsets: Iterable[int] | None = None) -> None:
        """``offsets`` saves listing the directory if the caller has already listed it."""
        self.directory = directory
        self.offsets = sorted(_list_snapshot_offsets(directory) if offsets is None else offsets)

    def path(self, offset: int) -> Path:
        return file_path(self.directory, offset, LogFileType.PRODUCER_SNAPSHOT)

    @property
    def latest_offset(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def write(
        self, offset: int, producer_entries: ProducerStateEntries, *, is_synced: bool
    ) -> Path:
        """Write a snapshot.  If ``is_synced`` is False, the caller flushes it later by its path."""
        path = self.path(offset)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = files.system.open(path, flags, 0o666)
        try:
            files.write_at(descriptor, [encode(producer_entries)], 0)
            if is_synced:
                files.sync(descriptor)
        finally:
            files.system.close(descriptor)
        if is_synced:
            self.sync_directory()
        if offset not in self.offsets:
            insort(self.offsets, offset)
        return path

    def clear_open_transactions(self, offset: int) -> None:
        """Clear the open transactions in the snapshot at ``offset``, if there is one.

        The caller knows that all of them have ended.  A corrupt snapshot is left as it is; its next
        reader gets the error.  The change is durable on return.
        """
        with suppress(CorruptSnapshot):
            entries = self.read(offset) if offset in self.offsets else {}
            if any(entry.current_txn_first_offset is not None for entry in entries.values()):
                cleared = {
                    producer_id: replace(entry, current_txn_first_offset=None)
                    for producer_id, entry in entries.items()
                }
                files.replace(self.path(offset), encode(cleared))

    def read(self, offset: int) -> dict[int, ProducerStateEntry]:
        """Return the entries, or raise CorruptSnapshot."""
        path = self.path(offset)
        content = files.read(path)
        if content is None:
            raise CorruptSnapshot(path, reason="the file does not exist")
        entries = decode(content, path=path)
        first_offsets = [
            entry.current_txn_first_offset
            for entry in entries.values()
            if entry.current_txn_first_offset is not None
        ]
        if (
            len(set(first_offsets)) < len(first_offsets)
            or max(first_offsets, default=_NO_OFFSET) >= offset
        ):
            raise CorruptSnapshot(
                path, reason=f"invalid first offsets of open transactions: {sorted(first_offsets)}"
            )
        return entries

    def remove(self, offset: int) -> None:
        files.remove(self.path(offset))
        self.offsets.remove(offset)

    def remove_outside(self, *, start: int, end: int) -> None:
        """Keep the snapshots from ``start`` to ``end``, both included.

        Kafka removes the snapshot at ``start`` too, and with it the state of an emptied log.
        """
        self._remove_all(offset for offset in self.offsets if not start <= offset <= end)

    def remove_all(self) -> None:
        self._remove_all(self.offsets)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Keep the snapshots of segments, and a later last one, which a clean shutdown wrote."""
        segments = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in segments]
        if strays and strays[-1] > max(segments, default=_NO_OFFSET):
            strays.pop()
        self._remove_all(strays)

    def mark_deleted(self, offset: int) -> Path | None:
        """Rename the snapshot to ``.deleted`` for later removal; None if there is none."""
        if offset not in self.offsets:
            return None
        deleted_path: Path | None
        deleted_path = file_path(
            self.directory, offset, LogFileType.PRODUCER_SNAPSHOT, FileStage.DELETED
        )
        try:
            files.rename(self.path(offset), deleted_path)
        except FileNotFoundError:
            deleted_path = None
        self.offsets.remove(offset)
        return deleted_path

    def sync_directory(self) -> None:
        """Make removed and new snapshots durable."""
        files.sync_directory(self.directory)

    def _remove_all(self, offsets: Iterable[int]) -> None:
        for offset in list(offsets):
            self.remove(offset)


def encode(producer_entries: ProducerStateEntries) -> bytes:
    """Return the content of the whole file."""
    pack = _ENTRY_WITH_PACKED_BATCH.pack
    entries = [
        pack(
            producer_id,
            entry.epoch,
            entry.packed_batches[:_BATCH_BYTES] or _NO_BATCH,
            entry.last_timestamp,
            entry.coordinator_epoch,
            _NO_OFFSET
            if entry.current_txn_first_offset is None
            else entry.current_txn_first_offset,
        )
        for producer_id, entry in producer_entries.items()
    ]
    content = bytearray(HEADER.pack(VERSION, 0, len(entries)))
    content += b"".join(entries)
    checksum = crc32c(memoryview(content)[_CHECKED_FROM_POSITION:])
    _CHECKSUM.pack_into(content, _CHECKSUM_POSITION, checksum)
    return bytes(content)


def decode(content: bytes, *, path: Path) -> dict[int, ProducerStateEntry]:
    """Return the entries in ``content``; ``path`` is only used in error messages."""
    _check(content, path)
    entries = {}
    for fields in ENTRY.iter_unpack(memoryview(content)[HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = fields
        packed = PACKED_BATCH.pack(sequence, offset, delta, timestamp) if offset >= 0 else b""
        transaction = first if first >= 0 else None
        entries[producer_id] = ProducerStateEntry(
            epoch, coordinator_epoch, timestamp, transaction, packed
        )
    return entries


def _check(content: bytes, path: Path) -> None:
    if len(content) < HEADER.size:
        raise CorruptSnapshot(path, reason=f"{len(content)} bytes, too few for a header")
    version, checksum, count = HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshot(path, reason=f"unsupported version {version}")
    computed = crc32c(memoryview(content)[_CHECKED_FROM_POSITION:])
    if checksum != computed:
        raise CorruptSnapshot(
            path, reason=f"checksum {checksum:08x}, but the bytes have {computed:08x}"
        )
    if len(content) != HEADER.size + count * ENTRY.size:
        raise CorruptSnapshot(path, reason=f"{count} entries in {len(content)} bytes")


def _list_snapshot_offsets(directory: Path) -> Iterator[int]:
    for name in files.system.listdir(directory):
        if name.endswith(LogFileType.PRODUCER_SNAPSHOT.value):
            file_name = parse_file_name(name)
            if file_name is not None:
                yield file_name.offset
