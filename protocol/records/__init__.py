"""Record batches: the payload of Produce and Fetch and the content of segments.

It corresponds to Kafka's ``org.apache.kafka.common.record`` package.

    batch.py            a view of one batch of magic 2: header fields, checksum, in-place changes
    record.py           the records inside a batch of magic 2
    builder.py          builds new batches of magic 2
    control_records.py  commit and abort markers
    legacy_batch.py     a view of one message of magic 0 or 1
    legacy_builder.py   builds new messages of magic 0 and 1
    legacy_lz4.py       the LZ4 frames of magic 0
    record_set.py       consecutive batches of any magic
    conversion.py       conversion from one magic to another
    compression.py      gzip, snappy, lz4, zstd in one table
    snappy.py           xerial's frame around snappy
    zstd.py             Zstandard frames
    block_limit.py      the maximum number of blocks in compressed bytes
    crc32c.py           the checksum of magic 2

Magic 2 was introduced by Kafka 0.11; "legacy" is for the clients and logs of older versions.
"""
