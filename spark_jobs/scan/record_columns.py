"""The arrays of a column: from the headers of batches, or from the fields of records.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any

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
from odradek.spark_jobs.scan.fields import Fields
from odradek.spark_jobs.scan.record_headers import RecordHeaders
from odradek.spark_jobs.scan.varints import Bytes, Integers
from odradek.spark_jobs.scan.wishes import Wishes

_FLAGS = {"isTransactional": TRANSACTIONAL_FLAG, "isControl": CONTROL_FLAG}
_NEVER_NEGATIVE = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "leaderEpoch": "leader_epoch",
}
_CODEC_BITS = 7


def batch_array(name: str, group: BatchGroup, batches: Integers, wishes: Wishes) -> Any:
    """A column that says the same of all records of a batch; ``batches`` has a number for each."""
    if name == "topic":
        return repeated(wishes.topic, len(batches))
    if name == "segment":
        return repeated(wishes.segment, len(batches))
    if name == "partition":
        return numbers(np.full(len(batches), wishes.partition), pa.int32())
    if name == "codec":
        return codec_names(group.field("attributes")[batches] & _CODEC_BITS)
    if name == "timestampType":
        return numbers(group.has_flag(LOG_APPEND_TIME_FLAG).astype(np.int64)[batches], pa.int32())
    if name in _FLAGS:
        return pa.array(group.has_flag(_FLAGS[name])[batches])
    values = group.field(_NEVER_NEGATIVE[name])[batches]
    return numbers(values, RECORD_COLUMNS[name], is_null=values < 0)


def record_array(
    name: str, group: BatchGroup, fields: Fields, buffer: Bytes, headers: RecordHeaders | None
) -> Any:
    """A column that says something else of each record."""
    match name:
        case "key":
            return slices(buffer, _known(fields.key_starts), _known(fields.key_sizes))
        case "value":
            return slices(buffer, _known(fields.value_starts), _known(fields.value_sizes))
        case "offset":
            offsets = group.field("base_offset")[fields.batches] + _known(fields.offset_deltas)
            return pa.array(offsets)
        case "timestamp":
            return timestamps(_timestamps(group, fields))
        case "sequence":
            first = group.field("base_sequence")[fields.batches]
            sequences = (first + _known(fields.offset_deltas)) & SEQUENCE_MAX
            return numbers(sequences, pa.int32(), is_null=first < 0)
        case "headers":
            assert headers is not None
            return _headers(_known(fields.header_counts), headers, buffer)
    sizes = _known(fields.key_sizes if name == "keySize" else fields.value_sizes)
    return numbers(sizes, pa.int32(), is_null=sizes < 0)


def _timestamps(group: BatchGroup, fields: Fields) -> Integers:
    created = group.field("base_timestamp")[fields.batches] + fields.timestamp_deltas
    is_append_time = group.has_flag(LOG_APPEND_TIME_FLAG)
    if not is_append_time.any():
        return created
    appended = group.field("max_timestamp")[fields.batches]
    return np.where(is_append_time[fields.batches], appended, created)


def _headers(counts: Integers, headers: RecordHeaders, buffer: Bytes) -> Any:
    ends = np.cumsum(counts)
    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
    pairs = pa.StructArray.from_arrays(
        [
            texts(slices(buffer, headers.key_starts, headers.key_sizes)),
            slices(buffer, headers.value_starts, headers.value_sizes),
        ],
        names=["key", "value"],
    )
    return pa.ListArray.from_arrays(offsets, pairs, mask=pa.array(counts == 0))


def _known(values: Integers | None) -> Integers:
    assert values is not None
    return values
