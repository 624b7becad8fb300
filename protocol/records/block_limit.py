"""How many blocks may compressed bytes consist of?

Clients fill their blocks, with 1 KB (snappy, before Kafka 0.11) to 128 KB (zstd) of records.  One
that flushed its compressor after each record would be read all the same, unless more than a
thousand records came to a few bytes each.  An empty block takes as long as any other, 1 to 3 us,
but has only three bytes (zstd) or five (snappy).
"""

#: So many blocks are never too many, however small.
BLOCKS_ALWAYS_ALLOWED = 1000
#: On average, where there are more.
BYTES_PER_BLOCK_MIN = 16


def blocks_max(compressed_bytes: int) -> int:
    return BLOCKS_ALWAYS_ALLOWED + compressed_bytes // BYTES_PER_BLOCK_MIN
