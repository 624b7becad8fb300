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

from odradek.spark_jobs.contents.content import Content
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, TIMESTAMP_TYPE

_PARTITIONS_TYPE = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))


@dataclass(frozen=True, slots=True)
class Columns:
    """By what they are read from; ``of_record`` has the scanner's names for them."""

    key: Mapping[str, pa.DataType]
    value: Mapping[str, pa.DataType]
    of_record: Mapping[str, str]

    @property
    def types(self) -> dict[str, pa.DataType]:
        of_record = {name: RECORD_COLUMNS[source] for name, source in self.of_record.items()}
        return {**self.key, **self.value, **of_record}

    def to_read(self, wanted: tuple[str, ...]) -> set[str]:
        """The scanner's columns that these are made from."""
        sources = {self.of_record[name] for name in wanted if name in self.of_record}
        is_value_wanted = not self.value.keys().isdisjoint(wanted)
        return {*sources, "offset", "key", *(["value"] if is_value_wanted else [])}


_PLACE = {"logPartition": "partition", "logOffset": "offset", "logTimestamp": "timestamp"}

COLUMNS: Mapping[Content, Columns] = {
    Content.OFFSETS: Columns(
        key={
            "recordType": pa.string(),
            "group": pa.string(),
            "memberId": pa.string(),
            "topic": pa.string(),
            "partition": pa.int32(),
        },
        value={
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
        of_record={
            **_PLACE,
            "isTransactional": "isTransactional",
            "producerId": "producerId",
            "producerEpoch": "producerEpoch",
            "segment": "segment",
        },
    ),
    Content.TRANSACTIONS: Columns(
        key={"recordType": pa.string(), "transactionalId": pa.string()},
        value={
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
        of_record={**_PLACE, "segment": "segment"},
    ),
}
