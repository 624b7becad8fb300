"""A number that changes when topics of a group are created, deleted, grown or moved between racks.

Kept in the group's record in place of the topics themselves (KIP-1101), and the same as Kafka's, so
that a group which changes hands is not rebalanced for nothing.  XXH3 of 64 bits, seed 0:

    of a topic    int8 0, the id as two int64, the name, int32 the number of partitions, and for
                  each of these int32 its number, and for each rack of its replicas int32 its
                  length and the rack, in ascending order
    of a group    int64 the hash of each of its topics that exist, in the order of their names

Numbers are little-endian; a name or rack is its UTF-16 units, and then int32 how many they are.  A
group that has none of its topics has 0.

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
_ID_TURNED = Struct("<QQ")
_BEGINNING = b"\0"


def hash_of_topic(name: str, topic_id: Uuid, racks: Sequence[Iterable[str]]) -> int:
    """``racks`` has those of the replicas for each partition, doubles included."""
    parts = [_BEGINNING, _ID_TURNED.pack(*_ID.unpack(topic_id)), _text(name)]
    parts.append(_INT32.pack(len(racks)))
    for partition, theirs in enumerate(racks):
        parts.append(_INT32.pack(partition))
        for rack in sorted(theirs):
            parts += (_INT32.pack(_length(rack)), _text(rack))
    return xxh3_64_intdigest(b"".join(parts))


def hash_of_group(topics: Mapping[str, int]) -> int:
    """As an int64 in a record; ``topics`` are hashes by name."""
    if not topics:
        return 0
    number = xxh3_64_intdigest(b"".join(_UINT64.pack(topics[name]) for name in sorted(topics)))
    return number - 2**64 if number >= 2**63 else number


def _text(text: str) -> bytes:
    return text.encode("utf-16-le") + _INT32.pack(_length(text))


def _length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
