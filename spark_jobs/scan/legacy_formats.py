"""Decode messages of magic 0 and 1 into an Arrow record batch, record by record.

Few logs still hold them, so speed does not matter here: protocol/records decodes them.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record import Record
from odradek.spark_jobs.scan.arrow_arrays import timestamp_array
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, build_schema
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.record_decoder import DecodedRows
from odradek.spark_jobs.scan.segment_reader import DamagedRange, LegacyBatchGroup

_NO_TIMESTAMP_TYPE = -1  # Kafka: TimestampType.NO_TIMESTAMP_TYPE, for magic 0

LegacyRow = tuple[LegacyBatch, Record]


def decode_legacy_batches(legacy_group: LegacyBatchGroup, spec: ReadSpec) -> DecodedRows:
    rows: list[LegacyRow] = []
    for message in legacy_group.batches:
        try:
            rows += [(message, record) for record in list(message)]
        except CorruptMessage as error:
            position = legacy_group.position + message.position
            yield DamagedRange(
                position, position + message.size_bytes, message.last_offset, str(error)
            )
    start, end = spec.start_offset, spec.end_offset
    rows = [row for row in rows if start <= row[1].offset < end]
    arrays = [_build_column(name, rows, spec) for name in spec.columns]
    yield pa.RecordBatch.from_arrays(arrays, schema=build_schema(spec.columns, RECORD_COLUMNS))


def timestamp_type(batch: LegacyBatch) -> int:
    return _NO_TIMESTAMP_TYPE if batch.magic == 0 else int(batch.timestamp_type)


def _build_column(name: str, rows: list[LegacyRow], spec: ReadSpec) -> Any:
    if name == "timestamp":
        return timestamp_array(np.array([record.timestamp for _, record in rows], dtype=np.int64))
    if name in _CELL_READERS:
        cells = [_CELL_READERS[name](message, record) for message, record in rows]
    else:
        # Fields that these formats lack are null, and no message is part of a transaction.
        constants = {
            "topic": spec.topic,
            "partition": spec.partition,
            "segment": spec.segment,
            "isTransactional": False,
            "isControl": False,
        }
        cells = [constants.get(name)] * len(rows)
    return pa.array(cells, RECORD_COLUMNS[name])


def _size(content: bytes | None) -> int | None:
    return None if content is None else len(content)


_CELL_READERS: dict[str, Callable[[LegacyBatch, Record], Any]] = {
    "key": lambda _, record: record.key,
    "value": lambda _, record: record.value,
    "offset": lambda _, record: record.offset,
    "timestampType": lambda message, _: timestamp_type(message),
    "codec": lambda message, _: message.codec.name.lower(),
    "keySize": lambda _, record: _size(record.key),
    "valueSize": lambda _, record: _size(record.value),
}
