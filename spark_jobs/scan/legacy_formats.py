"""Messages of magic 0 and 1 as a record batch of Arrow, record by record.

Logs that hold them are old and few, so this is the plain way: protocol/records reads them.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.record import Record
from odradek.spark_jobs.scan.arrays import timestamps
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, schema_of
from odradek.spark_jobs.scan.decode import Decoded
from odradek.spark_jobs.scan.walk import Flaw, OldMessages
from odradek.spark_jobs.scan.wishes import Wishes

_NO_TIMESTAMP_TYPE = -1  # what Kafka says of magic 0

Row = tuple[LegacyBatch, Record]


def decode_old(old: OldMessages, wishes: Wishes) -> Decoded:
    rows: list[Row] = []
    for message in old.messages:
        try:
            rows += [(message, record) for record in list(message)]
        except CorruptMessage as wrong:
            position = old.position + message.position
            yield Flaw(position, position + message.size_bytes, message.last_offset, str(wrong))
    start, end = wishes.start_offset, wishes.end_offset
    rows = [row for row in rows if start <= row[1].offset < end]
    arrays = [_array(name, rows, wishes) for name in wishes.columns]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(wishes.columns, RECORD_COLUMNS))


def timestamp_type(message: LegacyBatch) -> int:
    return _NO_TIMESTAMP_TYPE if message.magic == 0 else int(message.timestamp_type)


def _array(name: str, rows: list[Row], wishes: Wishes) -> Any:
    if name == "timestamp":
        return timestamps(np.array([record.timestamp for _, record in rows], dtype=np.int64))
    if name in _CELLS:
        cells = [_CELLS[name](message, record) for message, record in rows]
    else:
        # What these formats have not is null, and no message is part of a transaction.
        constants = {
            "topic": wishes.topic,
            "partition": wishes.partition,
            "segment": wishes.segment,
            "isTransactional": False,
            "isControl": False,
        }
        cells = [constants.get(name)] * len(rows)
    return pa.array(cells, RECORD_COLUMNS[name])


def _size(content: bytes | None) -> int | None:
    return None if content is None else len(content)


_CELLS: dict[str, Callable[[LegacyBatch, Record], Any]] = {
    "key": lambda _, record: record.key,
    "value": lambda _, record: record.value,
    "offset": lambda _, record: record.offset,
    "timestampType": lambda message, _: timestamp_type(message),
    "codec": lambda message, _: message.codec.name.lower(),
    "keySize": lambda _, record: _size(record.key),
    "valueSize": lambda _, record: _size(record.value),
}
