"""The columns of contents: names, Arrow types, and what has to be read for each.

Names that a record of any topic has, too, mean here what the record is about: ``topic``,
``partition`` and ``offset`` are what a group has committed.  Where the record itself stands is told
by ``logPartition``, ``logOffset`` and ``logTimestamp``.

    recordType      OffsetCommit, GroupMetadata, ...: the kind that the key's version stands for, or
                    the version itself if that is not known; CommitMarker, AbortMarker
    deleted         the value is null: what the key names is gone
    generation      of a classic group, or the epoch of one of the consumer protocol
    memberCount     of a classic group

What a kind of record does not have is null, and so is a time that was not given.

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
    """By what they are read from; ``of_record`` has the scanner's names for them."""

    key_columns: Mapping[str, pa.DataType]
    value_columns: Mapping[str, pa.DataType]
    log_columns: Mapping[str, str]

    @property
    def types(self) -> dict[str, pa.DataType]:
        log_types = {name: RECORD_COLUMNS[source] for name, source in self.log_columns.items()}
        return {**self.key_columns, **self.value_columns, **log_types}

    def scan_columns(self, columns: tuple[str, ...]) -> set[str]:
        """The scanner's columns that these are made from."""
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
