"""The partition of an internal topic for a group id or a transactional id.

It is the absolute value of Java's hash code of the key, modulo the number of partitions.  -2**31,
whose absolute value does not fit a Java int, counts as 0.  Kafka: partitionFor, Utils.abs.

Owner: none; immutable, any thread.
"""

from functools import lru_cache

_BITS = 0xFFFF_FFFF
_SIGN = 0x8000_0000


@lru_cache(maxsize=16_384)
def partition_for(key: str, partition_count: int) -> int:
    return _absolute(java_string_hash(key)) % partition_count


def java_string_hash(text: str) -> int:
    """Return ``String.hashCode``: computed over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & _BITS
    return code - (_BITS + 1) if code & _SIGN else code


def _absolute(code: int) -> int:
    return 0 if code == -_SIGN else abs(code)
