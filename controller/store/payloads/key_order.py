"""The order in which Kafka writes the keys of its maps.

JSON objects have no order, and no reader needs this one.  With it, our values equal Kafka's byte by
byte, so trees can be compared directly and an unchanged znode is recognized as unchanged.

Kafka's maps are hash tables, iterated by bucket.  A table has a power of two of buckets and is
doubled when it is three quarters full.  For an object that always has the same keys, the order is
written out in its encoder instead.  Not imitated: Scala's immutable maps of five keys or more
(listeners of a broker) and its sets of partitions, which keep the order of the caller.
"""

from collections.abc import Iterator, Mapping
from struct import iter_unpack
from typing import TypeVar

Value = TypeVar("Value")

BUCKETS_MIN = 16
SIGN_BIT = 2**31


def order_like_scala_mutable_map(entries: Mapping[str, Value]) -> dict[str, Value]:
    """Order as Scala's mutable.HashMap does: within a bucket by hash."""
    bucket_mask = _bucket_count(len(entries)) - 1
    sort_keys = {}
    for key in entries:
        key_hash = _spread_hash(key)
        # Scala compares hashes as signed numbers; with the sign bit flipped they sort as unsigned.
        sort_keys[key] = (key_hash & bucket_mask) << 32 | key_hash ^ SIGN_BIT
    return {key: entries[key] for key in sorted(entries, key=sort_keys.__getitem__)}


def order_like_java_properties(entries: Mapping[str, Value]) -> dict[str, Value]:
    """Order as java.util.Properties does: within a bucket in insertion order."""
    bucket_mask = _bucket_count(len(entries)) - 1
    ordered = sorted(entries, key=lambda key: _spread_hash(key) & bucket_mask)
    return {key: entries[key] for key in ordered}


def _bucket_count(count: int) -> int:
    buckets = BUCKETS_MIN
    while count >= buckets * 3 // 4:
        buckets *= 2
    return buckets


def _spread_hash(key: str) -> int:
    """Return the hash of a Java string, its upper half mixed into the lower, as unsigned."""
    units = key.encode() if key.isascii() else _utf16_units(key)
    key_hash = 0
    for unit in units:
        key_hash = 31 * key_hash + unit & 0xFFFFFFFF
    return key_hash ^ key_hash >> 16


def _utf16_units(key: str) -> Iterator[int]:
    return (unit for (unit,) in iter_unpack(">H", key.encode("utf-16-be")))
