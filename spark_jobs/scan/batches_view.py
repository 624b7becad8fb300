"""The batches view: one row for each batch, from its header.

The columns show counts, sizes, offsets, codecs and producers.  Nothing is decompressed.  Only the
column ``marker`` reads records: those of control batches.  Control batches have rows too.  A
compressed wrapper of magic 0 or 1 states neither its record count nor its first offset, so both
are null.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.spark_jobs.scan.arrow_arrays import codec_name_array, integer_array, timestamp_array
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import BATCH_COLUMNS, build_schema
from odradek.spark_jobs.scan.legacy_formats import timestamp_type
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.record_decoder import DecodedRows, drop_unreadable
from odradek.spark_jobs.scan.segment_reader import LegacyBatchGroup

_CODEC_MASK = 7


def build_batch_rows(group: BatchGroup, spec: ReadSpec) -> DecodedRows:
    group, damaged_ranges = drop_unreadable(group)
    yield from damaged_ranges
    constants = _constants(spec)
    arrays = [
        pa.repeat(pa.scalar(constants[name], BATCH_COLUMNS[name]), len(group))
        if name in constants
        else _build_column(name, group)
        for name in spec.columns
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=build_schema(spec.columns, BATCH_COLUMNS))


def build_legacy_batch_rows(legacy_group: LegacyBatchGroup, spec: ReadSpec) -> DecodedRows:
    constants = _constants(spec)
    selected = [message for message in legacy_group.batches if _is_in_range(message, spec)]
    rows = [{**constants, **_legacy_batch_row(legacy_group, message)} for message in selected]
    arrays = [
        pa.array([row.get(name) for row in rows], BATCH_COLUMNS[name]) for name in spec.columns
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=build_schema(spec.columns, BATCH_COLUMNS))


def _constants(spec: ReadSpec) -> dict[str, Any]:
    return {"topic": spec.topic, "partition": spec.partition, "segment": spec.segment}


#: Columns that are header fields; those in the second table are null where the field is negative.
_HEADER_FIELDS = {
    "baseOffset": "base_offset",
    "count": "count",
    "magic": "magic",
    "checksum": "checksum",
}
_NULL_IF_NEGATIVE = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "leaderEpoch": "leader_epoch",
}
_FLAG_COLUMNS = {"isTransactional": TRANSACTIONAL_FLAG, "isControl": CONTROL_FLAG}


def _build_column(name: str, group: BatchGroup) -> Any:
    if name in _FLAG_COLUMNS:
        return pa.array(group.has_flag(_FLAG_COLUMNS[name]))
    if name in _COMPUTED_COLUMNS:
        return _COMPUTED_COLUMNS[name](group)
    if name in _NULL_IF_NEGATIVE:
        values = group.field(_NULL_IF_NEGATIVE[name])
        return integer_array(values, BATCH_COLUMNS[name], is_null=values < 0)
    if name in _HEADER_FIELDS:
        values = group.field(_HEADER_FIELDS[name])
    elif name == "timestampType":
        values = group.has_flag(LOG_APPEND_TIME_FLAG).astype(np.int64)
    elif name == "lastOffset":
        values = group.last_offsets
    else:
        values = group.sizes if name == "sizeBytes" else group.position + group.starts
    return integer_array(values, BATCH_COLUMNS[name])


def _max_timestamps(group: BatchGroup) -> Any:
    return timestamp_array(group.field("max_timestamp"))


def _base_timestamps(group: BatchGroup) -> Any:
    """Null where compaction stored the delete horizon in this field: it is no record's time."""
    times = timestamp_array(group.field("base_timestamp"))
    has_horizon = group.has_flag(DELETE_HORIZON_FLAG)
    return pc.if_else(pa.array(has_horizon), None, times) if has_horizon.any() else times


def _codecs(group: BatchGroup) -> Any:
    return codec_name_array(group.field("attributes") & _CODEC_MASK)


def _markers(group: BatchGroup) -> Any:
    names: list[str | None] = [None] * len(group)
    for index in np.flatnonzero(group.has_flag(CONTROL_FLAG)).tolist():
        try:
            for marker in group.markers(index):
                names[index] = "commit" if marker.is_commit else "abort"
        except CorruptMessage:  # the records view reports it
            continue
    return pa.array(names, pa.string())


_COMPUTED_COLUMNS: Mapping[str, Callable[[BatchGroup], Any]] = {
    "baseTimestamp": _base_timestamps,
    "maxTimestamp": _max_timestamps,
    "codec": _codecs,
    "marker": _markers,
}


def _is_in_range(batch: LegacyBatch, spec: ReadSpec) -> bool:
    """The first offset of a wrapper is unknown, but the reader stops before one past the end."""
    is_before_end = batch.codec is not Codec.NONE or batch.last_offset < spec.end_offset
    return is_before_end and batch.last_offset >= spec.start_offset


def _legacy_batch_row(legacy_group: LegacyBatchGroup, batch: LegacyBatch) -> dict[str, Any]:
    is_single = batch.codec is Codec.NONE
    return {
        "position": legacy_group.position + batch.position,
        "sizeBytes": batch.size_bytes,
        "magic": batch.magic,
        "baseOffset": batch.last_offset if is_single else None,
        "lastOffset": batch.last_offset,
        "count": 1 if is_single else None,
        "codec": batch.codec.name.lower(),
        "timestampType": timestamp_type(batch),
        "maxTimestamp": timestamp_array(np.array([batch.max_timestamp]))[0],
        "isTransactional": False,
        "isControl": False,
        "checksum": batch.checksum,
    }
