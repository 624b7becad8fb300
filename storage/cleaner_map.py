"""The offset map: which is the last offset of every key in the dirty part of a log?

Compaction reads the dirty part once to fill the map, and then the whole log: a record whose key the
map knows at a later offset is obsolete.  The map has an end, before which it knows every key.  When
its memory is used up the end lies inside the dirty part, and the next compaction goes on from
there.  It is looked at between batches, so a batch is known whole or not at all: at least one is,
and no delete horizon is set for a batch of which only a part has been looked at.

A key of up to 31 bytes stands for itself; a longer one is represented by its digest of 16 bytes, as
in Kafka, which uses MD5.  In CPython both take 64 bytes.  (A key of 16 bytes is digested too, so
that none can be taken for a digest.)

Owner: the worker process.
"""

from __future__ import annotations

from hashlib import blake2b

from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner_records import body_of, walk

DIGEST_BYTES = 16
_ITSELF_BYTES_MAX = 31

#: What an entry takes, measured: 64 bytes for the key, 32 for the offset, and 20 to 60 in the
#: dictionary, most of them right after it has grown.  Kafka's takes 24.
ENTRY_BYTES = 156


class OffsetMap:
    """The last offset of each key from ``start_offset`` to before ``end_offset``."""

    def __init__(self, *, start_offset: int, bytes_max: int, load_factor: float) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.entries_max = max(1, int(bytes_max * load_factor) // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.entries_max

    @property
    def utilization(self) -> float:
        """How full it is; more than 1 if the last batch did not fit."""
        return len(self._offsets) / self.entries_max

    def note(self, batch: AnyBatch) -> int:
        """Learn the keys of a batch that follows all before; how many records it has."""
        if isinstance(batch, LegacyBatch) or batch.base_offset < self.start_offset:
            return self._note_each(batch)
        offsets, base_offset = self._offsets, batch.base_offset
        records = walk(body_of(batch), count=batch.count, last_delta=batch.last_offset_delta)
        for _, _, _, _, delta, key, _ in records:
            if key is not None:
                offsets[token_of(key)] = base_offset + delta
        return batch.count

    def _note_each(self, batch: AnyBatch) -> int:
        count = 0
        for record in batch.records():
            count += 1
            if record.key is not None and record.offset >= self.start_offset:
                self._offsets[token_of(record.key)] = record.offset
        return count

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether no later record with this key is known."""
        return offset >= self._offsets.get(token_of(key), -1)


def token_of(key: bytes) -> bytes:
    """What stands for the key: no more bytes of memory than its digest would take."""
    size = len(key)
    if size <= _ITSELF_BYTES_MAX and size != DIGEST_BYTES:
        return key
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
