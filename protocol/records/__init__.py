"""Record batches: what Produce carries, segments store and Fetch returns.

    batch           a view of one batch of magic 2: header fields, checksum, patching in place
    record          the records inside it
    builder         new batches
    control         commit and abort markers
    legacy          a view of one message of magic 0 or 1
    legacy_builder  new ones
    legacy_lz4      the LZ4 frames of magic 0
    record_set      batches of any magic, back to back
    conversion      from one magic to another
    compression     gzip, snappy, lz4, zstd behind one table
    snappy, zstd    the frames of these two
    crc32c          the checksum of magic 2

Magic 2 came with Kafka 0.11; what is called legacy serves clients and logs from before that.
"""
