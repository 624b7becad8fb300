"""A hash that changes when a group's topics are created, deleted, extended or moved between racks.

The group's record contains the hash instead of the topics (KIP-1101).  It equals Kafka's hash, so a
group that moves between this broker and Kafka does not rebalance.  XXH3 with 64 bits, seed 0:

    topic hash    int8 0, the id as two int64, the name, int32 the number of partitions, and for
                  each partition int32 its index, and for each rack of its replicas int32 its
                  length and the rack, in ascending order
    group hash    int64 the hash of each existing topic of the group, in the order of their names

Numbers are little-endian.  A name or rack is its UTF-16 code units, followed by int32 their number.
The hash of a group without existing topics is 0.

Kafka: org.apache.kafka.coordinator.group.Utils.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from xxhash import xxh3_64_intdigest

from odradek.protocol.types import Uuid

_INT32 = Struct("<i")
_UINT64 = Struct("<Q")
_ID = Struct(">QQ")
_ID_LITTLE_ENDIAN = Struct("<QQ")
_MAGIC_BYTE = b"\0"


def compute_topic_hash(name: str, topic_id: Uuid, racks: Sequence[Iterable[str]]) -> int:
    """``racks`` lists the racks of each partition's replicas, duplicates included."""
    parts = [_MAGIC_BYTE, _ID_LITTLE_ENDIAN.pack(*_ID.unpack(topic_id)), _encode_text(name)]
    parts.append(_INT32.pack(len(racks)))
    for partition, partition_racks in enumerate(racks):
        parts.append(_INT32.pack(partition))
        for rack in sorted(partition_racks):
            parts += (_INT32.pack(_utf16_length(rack)), _encode_text(rack))
    return xxh3_64_intdigest(b"".join(parts))


def compute_group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Return the hash as int64; ``topic_hashes`` are by topic name."""
    if not topic_hashes:
        return 0
    group_hash = xxh3_64_intdigest(
        b"".join(_UINT64.pack(topic_hashes[name]) for name in sorted(topic_hashes))
    )
    return group_hash - 2**64 if group_hash >= 2**63 else group_hash


def _encode_text(text: str) -> bytes:
    return text.encode("utf-16-le") + _INT32.pack(_utf16_length(text))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
