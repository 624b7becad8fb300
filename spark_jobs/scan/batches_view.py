"""A row for each batch, from its header: counts, sizes, offsets, codecs and producers.

Nothing is unpacked but markers of transactions, if those are wanted.  Control batches are batches
too.  A wrapper of magic 0 or 1 does not say how many records it has nor which is the first: both
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
from odradek.protocol.records.legacy import LegacyBatch
from odradek.spark_jobs.scan.arrays import codec_names, numbers, timestamps
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import BATCH_COLUMNS, schema_of
from odradek.spark_jobs.scan.decode import Decoded, readable
from odradek.spark_jobs.scan.old_formats import timestamp_type
from odradek.spark_jobs.scan.walk import OldMessages
from odradek.spark_jobs.scan.wishes import Wishes

_CODEC_BITS = 7


def batch_rows(group: BatchGroup, wishes: Wishes) -> Decoded:
    group, flaws = readable(group)
    yield from flaws
    constants = _constants(wishes)
    arrays = [
        pa.repeat(pa.scalar(constants[name], BATCH_COLUMNS[name]), len(group))
        if name in constants
        else _array(name, group)
        for name in wishes.columns
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(wishes.columns, BATCH_COLUMNS))


def old_message_rows(old: OldMessages, wishes: Wishes) -> Decoded:
    constants = _constants(wishes)
    wanted = [message for message in old.messages if _is_wanted(message, wishes)]
    rows = [{**constants, **_row(old, message)} for message in wanted]
    arrays = [
        pa.array([row.get(name) for row in rows], BATCH_COLUMNS[name]) for name in wishes.columns
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(wishes.columns, BATCH_COLUMNS))


def _constants(wishes: Wishes) -> dict[str, Any]:
    return {"topic": wishes.topic, "partition": wishes.partition, "segment": wishes.segment}


#: Fields of the header; those in the second table are null where they are negative.
_AS_IS = {
    "baseOffset": "base_offset",
    "count": "count",
    "magic": "magic",
    "checksum": "checksum",
}
_NEVER_NEGATIVE = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "leaderEpoch": "leader_epoch",
}
_FLAGS = {"isTransactional": TRANSACTIONAL_FLAG, "isControl": CONTROL_FLAG}


def _array(name: str, group: BatchGroup) -> Any:
    if name in _FLAGS:
        return pa.array(group.has_flag(_FLAGS[name]))
    if name in _MADE:
        return _MADE[name](group)
    if name in _NEVER_NEGATIVE:
        values = group.field(_NEVER_NEGATIVE[name])
        return numbers(values, BATCH_COLUMNS[name], is_null=values < 0)
    if name in _AS_IS:
        values = group.field(_AS_IS[name])
    elif name == "timestampType":
        values = group.has_flag(LOG_APPEND_TIME_FLAG).astype(np.int64)
    elif name == "lastOffset":
        values = group.last_offsets
    else:
        values = group.sizes if name == "sizeBytes" else group.position + group.starts
    return numbers(values, BATCH_COLUMNS[name])


def _max_timestamps(group: BatchGroup) -> Any:
    return timestamps(group.field("max_timestamp"))


def _base_timestamps(group: BatchGroup) -> Any:
    """Null where compaction has put the delete horizon in their place: that is no record's time."""
    times = timestamps(group.field("base_timestamp"))
    has_horizon = group.has_flag(DELETE_HORIZON_FLAG)
    return pc.if_else(pa.array(has_horizon), None, times) if has_horizon.any() else times


def _codecs(group: BatchGroup) -> Any:
    return codec_names(group.field("attributes") & _CODEC_BITS)


def _markers(group: BatchGroup) -> Any:
    names: list[str | None] = [None] * len(group)
    for at in np.flatnonzero(group.has_flag(CONTROL_FLAG)).tolist():
        try:
            for marker in group.markers(at):
                names[at] = "commit" if marker.is_commit else "abort"
        except CorruptMessage:  # whoever wants to see the record will be told
            continue
    return pa.array(names, pa.string())


_MADE: Mapping[str, Callable[[BatchGroup], Any]] = {
    "baseTimestamp": _base_timestamps,
    "maxTimestamp": _max_timestamps,
    "codec": _codecs,
    "marker": _markers,
}


def _is_wanted(message: LegacyBatch, wishes: Wishes) -> bool:
    """Where a wrapper begins is not known: the walk would have ended before one that is too far."""
    is_before_end = message.codec is not Codec.NONE or message.last_offset < wishes.end_offset
    return is_before_end and message.last_offset >= wishes.start_offset


def _row(old: OldMessages, message: LegacyBatch) -> dict[str, Any]:
    is_single = message.codec is Codec.NONE
    return {
        "position": old.position + message.position,
        "sizeBytes": message.size_bytes,
        "magic": message.magic,
        "baseOffset": message.last_offset if is_single else None,
        "lastOffset": message.last_offset,
        "count": 1 if is_single else None,
        "codec": message.codec.name.lower(),
        "timestampType": timestamp_type(message),
        "maxTimestamp": timestamps(np.array([message.max_timestamp]))[0],
        "isTransactional": False,
        "isControl": False,
        "checksum": message.checksum,
    }
