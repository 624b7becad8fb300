"""The ``.snapshot`` files of a partition: what was known of its producers at some offset.

The file is named for the offset up to which the log had been read, and is big-endian:

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

Of the last five batches only the newest is in it; the others are learned from the log's batches
again, so that a retry of any is recognised: recall.py.

A snapshot is written in place.  A crash may leave a part of it, or a file of zeros if it was not
synced: the checksum tells, and the one before it, and the log from there on, serve instead.  For
that reason one written when a segment is rolled need not be synced before the log goes on.

One that lies beyond the end of a truncated log must never come back, though, since the log grows
past it again with other batches: whoever removed it has to sync the directory before that.

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
from odradek.storage.paths import Content, Stage, file_named, file_path
from odradek.storage.producers.append import PACKED_BATCH, ProducerState

VERSION = 1
HEADER = Struct(">hIi")
ENTRY = Struct(">qhiqiqiq")
_CHECKSUM_POSITION = 2
_CHECKSUM = Struct(">I")
_CHECKED_FROM_POSITION = 6

_NO_OFFSET = -1
# Sequence, offset and delta are packed in a state as they are here: so a snapshot of 100,000
# producers, taken while the log waits, takes half as long as with each field by itself.
_BATCH = Struct(">iqi")
_BATCH_BYTES = _BATCH.size
_NO_BATCH = _BATCH.pack(NO_SEQUENCE, _NO_OFFSET, 0)
_ENTRY_AROUND_BATCH = Struct(f">qh{_BATCH_BYTES}sqiq")

States = Mapping[int, ProducerState]


class ProducerSnapshotDamaged(KafkaStorageError):
    """A snapshot that cannot be believed: an older one, or the log, tells instead."""

    def __init__(self, path: Path, *, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class ProducerSnapshots:
    """The snapshots in the directory of a partition, by offset.

    They are listed once: nobody else may write or remove any as long as this is used.
    """

    __slots__ = ("directory", "offsets")

    def __init__(self, directory: Path, offsets: Iterable[int] | None = None) -> None:
        """``offsets`` spares the listing, if somebody has done it."""
        self.directory = directory
        self.offsets = sorted(_offsets_in(directory) if offsets is None else offsets)

    def path(self, offset: int) -> Path:
        return file_path(self.directory, offset, Content.PRODUCER_SNAPSHOT)

    @property
    def newest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def write(self, offset: int, states: States, *, is_synced: bool) -> Path:
        """Unless synced it is to be synced later, by its path."""
        path = self.path(offset)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = files.system.open(path, flags, 0o666)
        try:
            files.write_at(descriptor, [encode(states)], 0)
            if is_synced:
                files.sync(descriptor)
        finally:
            files.system.close(descriptor)
        if is_synced:
            self.sync_names()
        if offset not in self.offsets:
            insort(self.offsets, offset)
        return path

    def end_transactions(self, offset: int) -> None:
        """All that were open at ``offset`` have ended: say so if there is a snapshot of it.

        A damaged one stays as it is, for whoever needs it to find out.  Durable when it returns.
        """
        with suppress(ProducerSnapshotDamaged):
            states = self.read(offset) if offset in self.offsets else {}
            if any(state.transaction_first_offset is not None for state in states.values()):
                ended = {
                    producer_id: replace(state, transaction_first_offset=None)
                    for producer_id, state in states.items()
                }
                files.replace(self.path(offset), encode(ended))

    def read(self, offset: int) -> dict[int, ProducerState]:
        """What was written, or ProducerSnapshotDamaged."""
        path = self.path(offset)
        content = files.read(path)
        if content is None:
            raise ProducerSnapshotDamaged(path, why="the file is gone")
        states = decode(content, path=path)
        begun = [
            state.transaction_first_offset
            for state in states.values()
            if state.transaction_first_offset is not None
        ]
        if len(set(begun)) < len(begun) or max(begun, default=_NO_OFFSET) >= offset:
            raise ProducerSnapshotDamaged(path, why=f"transactions open at offsets {sorted(begun)}")
        return states

    def remove(self, offset: int) -> None:
        files.remove(self.path(offset))
        self.offsets.remove(offset)

    def remove_outside(self, *, start: int, end: int) -> None:
        """Keep those from ``start`` to ``end``, both included.

        Kafka removes the one at the start too, and with it what an emptied log knew.
        """
        self._remove_all(known for known in self.offsets if not start <= known <= end)

    def remove_all(self) -> None:
        self._remove_all(self.offsets)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Keep those of segments, and the last one if it is younger: a clean close wrote it."""
        segments = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in segments]
        if strays and strays[-1] > max(segments, default=_NO_OFFSET):
            strays.pop()
        self._remove_all(strays)

    def mark_deleted(self, offset: int) -> Path | None:
        """Forget it, and rename it to what is to be removed later; None if there is none."""
        if offset not in self.offsets:
            return None
        marked: Path | None
        marked = file_path(self.directory, offset, Content.PRODUCER_SNAPSHOT, Stage.DELETED)
        try:
            files.rename(self.path(offset), marked)
        except FileNotFoundError:
            marked = None
        self.offsets.remove(offset)
        return marked

    def sync_names(self) -> None:
        """What has been removed stays away, and what has been written keeps its name."""
        files.sync_directory(self.directory)

    def _remove_all(self, offsets: Iterable[int]) -> None:
        for offset in list(offsets):
            self.remove(offset)


def encode(states: States) -> bytes:
    """The whole file."""
    pack = _ENTRY_AROUND_BATCH.pack
    entries = [
        pack(
            producer_id,
            state.epoch,
            state.packed_batches[:_BATCH_BYTES] or _NO_BATCH,
            state.last_timestamp,
            state.coordinator_epoch,
            _NO_OFFSET
            if state.transaction_first_offset is None
            else state.transaction_first_offset,
        )
        for producer_id, state in states.items()
    ]
    content = bytearray(HEADER.pack(VERSION, 0, len(entries)))
    content += b"".join(entries)
    checksum = crc32c(memoryview(content)[_CHECKED_FROM_POSITION:])
    _CHECKSUM.pack_into(content, _CHECKSUM_POSITION, checksum)
    return bytes(content)


def decode(content: bytes, *, path: Path) -> dict[int, ProducerState]:
    """The states that ``content`` holds; ``path`` is for saying where it was found."""
    _check(content, path)
    states = {}
    for fields in ENTRY.iter_unpack(memoryview(content)[HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = fields
        packed = PACKED_BATCH.pack(sequence, offset, delta, timestamp) if offset >= 0 else b""
        transaction = first if first >= 0 else None
        states[producer_id] = ProducerState(
            epoch, coordinator_epoch, timestamp, transaction, packed
        )
    return states


def _check(content: bytes, path: Path) -> None:
    if len(content) < HEADER.size:
        raise ProducerSnapshotDamaged(path, why=f"{len(content)} bytes, too few for a header")
    version, checksum, count = HEADER.unpack_from(content)
    if version != VERSION:
        raise ProducerSnapshotDamaged(path, why=f"version {version}")
    computed = crc32c(memoryview(content)[_CHECKED_FROM_POSITION:])
    if checksum != computed:
        raise ProducerSnapshotDamaged(
            path, why=f"checksum {checksum:08x}, but the bytes have {computed:08x}"
        )
    if len(content) != HEADER.size + count * ENTRY.size:
        raise ProducerSnapshotDamaged(path, why=f"{count} entries in {len(content)} bytes")


def _offsets_in(directory: Path) -> Iterator[int]:
    for name in files.system.listdir(directory):
        if name.endswith(Content.PRODUCER_SNAPSHOT.value):
            file_name = file_named(name)
            if file_name is not None:
                yield file_name.offset
