"""The columns of a scan: their names, Arrow types, and how much of a record each one needs.

The first eight are those of Spark's own Kafka source; ``headers`` is null if a record has none.
The others show what a consumer does not see:

    producerId, producerEpoch, sequence     null where the producer is not idempotent
    leaderEpoch                             null in magic 0 and 1
    codec                                   none, gzip, snappy, lz4 or zstd
    keySize, valueSize                      in bytes, null as key and value are
    segment                                 the path of the file
    isControl                               only with includeControl: true for a marker

A timestamp that does not fit into 64 bits of microseconds is null.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from odradek.spark_jobs.scan.record_fields import DecodeDepth

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

RECORD_COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "sequence": pa.int32(),
    "isTransactional": pa.bool_(),
    "leaderEpoch": pa.int32(),
    "codec": pa.string(),
    "keySize": pa.int32(),
    "valueSize": pa.int32(),
    "segment": pa.string(),
    "isControl": pa.bool_(),
}

#: One row for each batch; ``marker`` is how a transaction ended there: commit or abort.
BATCH_COLUMNS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "segment": pa.string(),
    "position": pa.int64(),
    "sizeBytes": pa.int64(),
    "magic": pa.int32(),
    "baseOffset": pa.int64(),
    "lastOffset": pa.int64(),
    "count": pa.int32(),
    "codec": pa.string(),
    "timestampType": pa.int32(),
    "baseTimestamp": TIMESTAMP_TYPE,
    "maxTimestamp": TIMESTAMP_TYPE,
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "baseSequence": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "marker": pa.string(),
    "leaderEpoch": pa.int32(),
    "checksum": pa.int64(),
}

#: How far into a record a column requires decoding; the other columns come from the batch header.
COLUMN_DEPTHS = {
    "timestamp": DecodeDepth.TIMESTAMP,
    "offset": DecodeDepth.OFFSET,
    "sequence": DecodeDepth.OFFSET,
    "key": DecodeDepth.KEY,
    "keySize": DecodeDepth.KEY,
    "value": DecodeDepth.VALUE,
    "valueSize": DecodeDepth.VALUE,
    "headers": DecodeDepth.HEADERS,
}


@cache
def record_schema(columns: tuple[str, ...]) -> pa.Schema:
    return build_schema(columns, RECORD_COLUMNS)


def build_schema(columns: tuple[str, ...], types: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema([(name, types[name]) for name in columns])
