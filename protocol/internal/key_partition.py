"""Which partition of an internal topic does a group id or a transactional id belong to?

The absolute value of Java's hash of the key, modulo the number of partitions; the one value whose
absolute value Java cannot tell, -2**31, counts as 0.

Owner: none; immutable, any thread.
"""

from functools import lru_cache

_BITS = 0xFFFF_FFFF
_SIGN = 0x8000_0000


@lru_cache(maxsize=16_384)
def partition_for(key: str, partition_count: int) -> int:
    return _absolute(java_string_hash(key)) % partition_count


def java_string_hash(text: str) -> int:
    """As ``String.hashCode``: over UTF-16 units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & _BITS
    return code - (_BITS + 1) if code & _SIGN else code


def _absolute(code: int) -> int:
    return 0 if code == -_SIGN else abs(code)
