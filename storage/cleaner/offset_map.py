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

from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner.batch_records import BatchRecords, parse_records

DIGEST_BYTES = 16
#: How long a key may be to stand for itself.
_INLINE_KEY_LENGTHS = frozenset(range(32)) - {DIGEST_BYTES}

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

    def put_batch(self, batch: AnyBatch) -> int:
        """Learn the keys of a batch that follows all before; how many records it has."""
        if isinstance(batch, LegacyBatch) or batch.base_offset < self.start_offset:
            return self._put_each(batch)
        offsets, base_offset = self._offsets, batch.base_offset
        records = parse_records(batch)
        for key, delta in zip(records.keys, records.offset_deltas, strict=True):
            if key is not None:
                offsets[key if len(key) in _INLINE_KEY_LENGTHS else key_digest(key)] = (
                    base_offset + delta
                )
        return batch.count

    def _put_each(self, batch: AnyBatch) -> int:
        count = 0
        for record in batch.records():
            count += 1
            if record.key is not None and record.offset >= self.start_offset:
                self._offsets[key_token(record.key)] = record.offset
        return count

    def latest_slots(self, records: BatchRecords, base_offset: int) -> list[int]:
        """The slots of those records with a key of which no later one is known."""
        last_offset_of = self._offsets.get
        return [
            slot
            for slot, (key, delta) in enumerate(
                zip(records.keys, records.offset_deltas, strict=True)
            )
            if key is not None
            and base_offset + delta
            >= last_offset_of(key if len(key) in _INLINE_KEY_LENGTHS else key_digest(key), -1)
        ]

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether no later record with this key is known."""
        return offset >= self._offsets.get(key_token(key), -1)


def key_token(key: bytes) -> bytes:
    """What stands for the key: no more bytes of memory than its digest would take."""
    return key if len(key) in _INLINE_KEY_LENGTHS else key_digest(key)


def key_digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
