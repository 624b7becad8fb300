"""Record batches: what Produce carries, segments store and Fetch returns.

    batch.py           a view of one batch of magic 2: header fields, checksum, patching in place
    record.py          the records inside it
    builder.py         new batches
    control.py         commit and abort markers
    legacy.py          a view of one message of magic 0 or 1
    legacy_builder.py  new ones
    legacy_lz4.py      the LZ4 frames of magic 0
    record_set.py      batches of any magic, back to back
    conversion.py      from one magic to another
    compression.py     gzip, snappy, lz4, zstd behind one table
    snappy.py          xerial's frame around snappy
    zstd.py            Zstandard frames
    blocks.py          how many blocks compressed bytes may have
    crc32c.py          the checksum of magic 2

Magic 2 came with Kafka 0.11; what is called legacy serves clients and logs from before that.
"""
