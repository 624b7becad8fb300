"""The offset map: the last offset of every key in the dirty part of a log.

Kafka: SkimpyOffsetMap.

The cleaner first reads the dirty part to fill the map, then reads the whole log.  A record is
obsolete if the map has a later offset for its key.  The map knows every key from ``start_offset``
to before ``end_offset``.  When its memory is used up, ``end_offset`` lies inside the dirty part,
and the next compaction continues from there.  The cleaner checks for a full map only between
batches.  So the map always covers whole batches and at least one, and no batch gets a delete
horizon when only a part of it is in the map.

A key of up to 31 bytes is stored as it is.  A longer key is stored as a digest of 16 bytes, as in
Kafka, which uses MD5.  In CPython both take 64 bytes.  A key of exactly 16 bytes is digested too,
because it could otherwise equal the digest of another key.

Owner: the worker process.
"""

from __future__ import annotations

from hashlib import blake2b

from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner.batch_records import BatchRecords, parse_records

DIGEST_BYTES = 16
#: Lengths of the keys that are stored as they are.
_INLINE_KEY_LENGTHS = frozenset(range(32)) - {DIGEST_BYTES}

#: Memory of one entry, measured: 64 bytes for the key, 32 for the offset, and 20 to 60 in the
#: dictionary, most of them right after it has grown.  Kafka's entry takes 24 bytes.
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
        """Return the fill level; it exceeds 1 if the last batch did not fit."""
        return len(self._offsets) / self.entries_max

    def put_batch(self, batch: AnyBatch) -> int:
        """Add the keys of a batch, which must follow all earlier ones.  Return its record count."""
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
        """Return the slots of the records that have a key and no later record in the map."""
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
        """Return whether the map has no later record with this key."""
        return offset >= self._offsets.get(key_token(key), -1)


def key_token(key: bytes) -> bytes:
    """Return the key itself or its digest, whichever takes at most 64 bytes of memory."""
    return key if len(key) in _INLINE_KEY_LENGTHS else key_digest(key)


def key_digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
