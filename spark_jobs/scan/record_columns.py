"""The arrays of a column: from the headers of batches, or from the fields of records.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from odradek.protocol.records.batch import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
)
from odradek.spark_jobs.scan.arrays import (
    codec_names,
    numbers,
    repeated,
    slices,
    texts,
    timestamps,
)
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS
from odradek.spark_jobs.scan.fields import Contents, Fields
from odradek.spark_jobs.scan.record_headers import RecordHeaders
from odradek.spark_jobs.scan.varints import Bytes, Integers, Narrow
from odradek.spark_jobs.scan.wishes import Wishes

_FLAGS = {"isTransactional": TRANSACTIONAL_FLAG, "isControl": CONTROL_FLAG}
_NEVER_NEGATIVE = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "leaderEpoch": "leader_epoch",
}
_CODEC_BITS = 7


def batch_array(name: str, group: BatchGroup, wishes: Wishes) -> Any:
    """A column that says the same of all records of a batch."""
    counts = group.field("count")
    if name == "topic":
        return repeated(wishes.topic, int(counts.sum()))
    if name == "segment":
        return repeated(wishes.segment, int(counts.sum()))
    if name == "partition":
        return numbers(np.full(int(counts.sum()), wishes.partition, dtype=np.int32), pa.int32())
    if name == "codec":
        return codec_names(np.repeat(group.field("attributes") & _CODEC_BITS, counts))
    if name == "timestampType":
        types = group.has_flag(LOG_APPEND_TIME_FLAG).astype(np.int32)
        return numbers(np.repeat(types, counts), pa.int32())
    if name in _FLAGS:
        return pa.array(np.repeat(group.has_flag(_FLAGS[name]), counts))
    values = np.repeat(group.field(_NEVER_NEGATIVE[name]), counts)
    return numbers(values, RECORD_COLUMNS[name], is_null=values < 0)


def record_array(
    name: str, group: BatchGroup, fields: Fields, buffer: Bytes, headers: RecordHeaders | None
) -> Any:
    """A column that says something else of each record."""
    match name:
        case "key":
            return _contents(buffer, _known(fields.keys))
        case "value":
            return _contents(buffer, _known(fields.values))
        case "keySize":
            return _sizes(_known(fields.keys))
        case "valueSize":
            return _sizes(_known(fields.values))
        case "offset":
            offsets = fields.spread(group.field("base_offset"))
            offsets += _known(fields.offset_deltas)
            return numbers(offsets, pa.int64())
        case "timestamp":
            return timestamps(_timestamps(group, fields))
        case "sequence":
            first = fields.spread(group.field("base_sequence"))
            sequences = (first + _known(fields.offset_deltas)) & SEQUENCE_MAX
            return numbers(sequences, pa.int32(), is_null=first < 0)
    assert headers is not None
    return _headers(_known(fields.header_counts), headers, buffer)


def _contents(buffer: Bytes, contents: Contents) -> Any:
    return slices(buffer, contents.starts, contents.ends, is_null=contents.sizes < 0)


def _sizes(contents: Contents) -> Any:
    return numbers(contents.sizes, pa.int32(), is_null=contents.sizes < 0)


def _timestamps(group: BatchGroup, fields: Fields) -> Integers:
    created: Integers = fields.spread(group.field("base_timestamp"))
    created += fields.timestamp_deltas
    is_append_time = group.has_flag(LOG_APPEND_TIME_FLAG)
    if not is_append_time.any():
        return created
    appended = fields.spread(group.field("max_timestamp"))
    return np.where(fields.spread(is_append_time), appended, created)


def _headers(counts: Narrow, headers: RecordHeaders, buffer: Bytes) -> Any:
    ends = np.cumsum(counts)
    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
    pairs = pa.StructArray.from_arrays(
        [
            texts(_contents(buffer, headers.keys)),
            _contents(buffer, headers.values),
        ],
        names=["key", "value"],
    )
    return pa.ListArray.from_arrays(offsets, pairs, mask=pa.array(counts == 0))


Known = TypeVar("Known")


def _known(field: Known | None) -> Known:
    assert field is not None
    return field
