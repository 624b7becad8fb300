"""Columns of decoded internal topics: names, Arrow types, and the scanner's columns for each.

``topic``, ``partition`` and ``offset`` are those that a group has committed, and not those of the
record.  The position of the record itself is in ``logPartition``, ``logOffset`` and
``logTimestamp``.

    recordType      OffsetCommit, GroupMetadata, ...: the type that the key's version stands for, or
                    the version itself if it is unknown; CommitMarker, AbortMarker
    deleted         the record is a tombstone: its value is null
    generation      of a classic group, or the epoch of a group of the consumer protocol
    memberCount     of a classic group

A column that a type of record does not have is null, and so is a timestamp that is not set.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from odradek.spark_jobs.internal_topics.content import Content
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, TIMESTAMP_TYPE

_PARTITIONS_TYPE = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))


@dataclass(frozen=True, slots=True)
class ContentColumns:
    """Columns by their origin; ``log_columns`` maps names to columns of the scanner."""

    key_columns: Mapping[str, pa.DataType]
    value_columns: Mapping[str, pa.DataType]
    log_columns: Mapping[str, str]

    @property
    def types(self) -> dict[str, pa.DataType]:
        log_types = {name: RECORD_COLUMNS[source] for name, source in self.log_columns.items()}
        return {**self.key_columns, **self.value_columns, **log_types}

    def scan_columns(self, columns: tuple[str, ...]) -> set[str]:
        """Return the scanner's columns that these columns are computed from."""
        sources = {self.log_columns[name] for name in columns if name in self.log_columns}
        needs_value = not self.value_columns.keys().isdisjoint(columns)
        return {*sources, "offset", "key", *(["value"] if needs_value else [])}


_LOG_POSITION_COLUMNS = {
    "logPartition": "partition",
    "logOffset": "offset",
    "logTimestamp": "timestamp",
}

CONTENT_COLUMNS: Mapping[Content, ContentColumns] = {
    Content.OFFSETS: ContentColumns(
        key_columns={
            "recordType": pa.string(),
            "group": pa.string(),
            "memberId": pa.string(),
            "topic": pa.string(),
            "partition": pa.int32(),
        },
        value_columns={
            "offset": pa.int64(),
            "leaderEpoch": pa.int32(),
            "metadata": pa.string(),
            "commitTimestamp": TIMESTAMP_TYPE,
            "expireTimestamp": TIMESTAMP_TYPE,
            "protocolType": pa.string(),
            "generation": pa.int32(),
            "memberCount": pa.int32(),
            "deleted": pa.bool_(),
        },
        log_columns={
            **_LOG_POSITION_COLUMNS,
            "isTransactional": "isTransactional",
            "producerId": "producerId",
            "producerEpoch": "producerEpoch",
            "segment": "segment",
        },
    ),
    Content.TRANSACTIONS: ContentColumns(
        key_columns={"recordType": pa.string(), "transactionalId": pa.string()},
        value_columns={
            "state": pa.string(),
            "producerId": pa.int64(),
            "producerEpoch": pa.int32(),
            "previousProducerId": pa.int64(),
            "nextProducerId": pa.int64(),
            "timeoutMs": pa.int32(),
            "partitions": _PARTITIONS_TYPE,
            "startTimestamp": TIMESTAMP_TYPE,
            "lastUpdateTimestamp": TIMESTAMP_TYPE,
            "clientTransactionVersion": pa.int32(),
            "deleted": pa.bool_(),
        },
        log_columns={**_LOG_POSITION_COLUMNS, "segment": "segment"},
    ),
}
