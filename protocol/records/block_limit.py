"""The maximum number of blocks in compressed bytes.

Clients fill their blocks with 1 KB (snappy, before Kafka 0.11) to 128 KB (zstd) of records.  Data
of a client that flushes its compressor after every record is accepted too, unless it has more than
a thousand records of a few bytes each.  The limit bounds the time: an empty block takes as long as
any other, 1 to 3 us, but has only three bytes (zstd) or five (snappy).
"""

#: This number of blocks is always accepted, however small they are.
BLOCKS_ALWAYS_ALLOWED = 1000
#: The minimum average size of the blocks above that number.
BYTES_PER_BLOCK_MIN = 16


def blocks_max(compressed_bytes: int) -> int:
    return BLOCKS_ALWAYS_ALLOWED + compressed_bytes // BYTES_PER_BLOCK_MIN
