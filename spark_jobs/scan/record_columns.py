"""Build the array of a column, from the headers of batches or from the fields of records.

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
from odradek.spark_jobs.scan.arrow_arrays import (
    binary_array,
    codec_name_array,
    constant_array,
    integer_array,
    string_array,
    timestamp_array,
)
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.record_fields import ByteRanges, RecordFields
from odradek.spark_jobs.scan.record_headers import RecordHeaders
from odradek.spark_jobs.scan.varints import ByteArray, Int64Array, IntArray

_FLAG_COLUMNS = {"isTransactional": TRANSACTIONAL_FLAG, "isControl": CONTROL_FLAG}
_NULL_IF_NEGATIVE = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "leaderEpoch": "leader_epoch",
}
_CODEC_MASK = 7


def build_batch_column(name: str, group: BatchGroup, spec: ReadSpec) -> Any:
    """Build a column that has the same value for all records of a batch."""
    counts = group.field("count")
    if name == "topic":
        return constant_array(spec.topic, int(counts.sum()))
    if name == "segment":
        return constant_array(spec.segment, int(counts.sum()))
    if name == "partition":
        return integer_array(np.full(int(counts.sum()), spec.partition, dtype=np.int32), pa.int32())
    if name == "codec":
        return codec_name_array(np.repeat(group.field("attributes") & _CODEC_MASK, counts))
    if name == "timestampType":
        types = group.has_flag(LOG_APPEND_TIME_FLAG).astype(np.int32)
        return integer_array(np.repeat(types, counts), pa.int32())
    if name in _FLAG_COLUMNS:
        return pa.array(np.repeat(group.has_flag(_FLAG_COLUMNS[name]), counts))
    values = np.repeat(group.field(_NULL_IF_NEGATIVE[name]), counts)
    return integer_array(values, RECORD_COLUMNS[name], is_null=values < 0)


def build_record_column(
    name: str,
    group: BatchGroup,
    fields: RecordFields,
    buffer: ByteArray,
    headers: RecordHeaders | None,
) -> Any:
    """Build a column that may differ for each record."""
    match name:
        case "key":
            return _binary_column(buffer, _require(fields.keys))
        case "value":
            return _binary_column(buffer, _require(fields.values))
        case "keySize":
            return _size_column(_require(fields.keys))
        case "valueSize":
            return _size_column(_require(fields.values))
        case "offset":
            offsets = fields.repeat_per_record(group.field("base_offset"))
            offsets += _require(fields.offset_deltas)
            return integer_array(offsets, pa.int64())
        case "timestamp":
            return timestamp_array(_record_timestamps(group, fields))
        case "sequence":
            first = fields.repeat_per_record(group.field("base_sequence"))
            sequences = (first + _require(fields.offset_deltas)) & SEQUENCE_MAX
            return integer_array(sequences, pa.int32(), is_null=first < 0)
    assert headers is not None
    return _header_column(_require(fields.header_counts), headers, buffer)


def _binary_column(buffer: ByteArray, ranges: ByteRanges) -> Any:
    return binary_array(buffer, ranges.starts, ranges.ends, is_null=ranges.sizes < 0)


def _size_column(ranges: ByteRanges) -> Any:
    return integer_array(ranges.sizes, pa.int32(), is_null=ranges.sizes < 0)


def _record_timestamps(group: BatchGroup, fields: RecordFields) -> Int64Array:
    create_times: Int64Array = fields.repeat_per_record(group.field("base_timestamp"))
    create_times += fields.timestamp_deltas
    is_append_time = group.has_flag(LOG_APPEND_TIME_FLAG)
    if not is_append_time.any():
        return create_times
    append_times = fields.repeat_per_record(group.field("max_timestamp"))
    return np.where(fields.repeat_per_record(is_append_time), append_times, create_times)


def _header_column(counts: IntArray, headers: RecordHeaders, buffer: ByteArray) -> Any:
    ends = np.cumsum(counts)
    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
    pairs = pa.StructArray.from_arrays(
        [
            string_array(_binary_column(buffer, headers.keys)),
            _binary_column(buffer, headers.values),
        ],
        names=["key", "value"],
    )
    return pa.ListArray.from_arrays(offsets, pairs, mask=pa.array(counts == 0))


Field = TypeVar("Field")


def _require(field: Field | None) -> Field:
    assert field is not None
    return field
