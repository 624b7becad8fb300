"""Partitions of internal topics made for a scan, record by record."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.internal.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.storage.paths import LogFileType, file_path
from tests.support.batches import batch_of

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
NOW_MS = 1_700_000_000_000


class InternalLog:
    """One partition; every record is a batch of its own, and is in the file at once."""

    def __init__(self, log_dir: Path, topic: str, partition: int = 0) -> None:
        directory = log_dir / f"{topic}-{partition}"
        directory.mkdir(parents=True)
        self.path = file_path(directory, 0, LogFileType.LOG)
        self.path.touch()
        self.end_offset = 0

    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        producer_id: int | None = None,
        timestamp: int = NOW_MS,
    ) -> int:
        """The offset that the record has."""
        transaction = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        fields = {} if producer_id is None else {**transaction, "is_transactional": True}
        record = Record(self.end_offset, timestamp, key, value)
        return self._append(batch_of(record, base_offset=self.end_offset, **fields))

    def mark(self, producer_id: int, *, is_commit: bool) -> int:
        """The end of a transaction."""
        marker = EndTransactionMarker(is_commit, coordinator_epoch=0)
        return self._append(
            build_marker_batch(
                marker,
                timestamp=NOW_MS,
                producer_id=producer_id,
                producer_epoch=0,
                base_offset=self.end_offset,
            )
        )

    def _append(self, batch: bytearray) -> int:
        with self.path.open("ab") as file:
            file.write(batch)
        self.end_offset += 1
        return self.end_offset - 1


def offset_key(group: str, topic: str, partition: int, *, version: int = 1) -> bytes:
    return encode_version_prefixed(
        OffsetCommitKey(group=group, topic=topic, partition=partition), version
    )


def offset_value(
    offset: int,
    *,
    metadata: str = "",
    committed_ms: int = NOW_MS,
    version: int = 3,
    expires_ms: int = -1,
) -> bytes:
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=committed_ms,
        expire_timestamp=expires_ms,
    )
    return encode_version_prefixed(value, version)


def group_key(group: str) -> bytes:
    return encode_version_prefixed(GroupMetadataKey(group=group), 2)


def group_value(generation: int, *, member_ids: tuple[str, ...] = ()) -> bytes:
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=45_000,
            subscription=b"",
            assignment=b"",
        )
        for member_id in member_ids
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=None,
        members=members,
    )
    return encode_version_prefixed(value, 3)


def transaction_key(transactional_id: str) -> bytes:
    return encode_version_prefixed(TransactionLogKey(transactional_id=transactional_id), 0)


def transaction_value(
    producer_id: int,
    status: int,
    partitions: dict[str, list[int]] | None = None,
    *,
    started_ms: int = NOW_MS,
    version: int = 0,
) -> bytes:
    topics = [
        TransactionLogValue.TopicPartitions(topic=topic, partition_ids=numbers)
        for topic, numbers in (partitions or {}).items()
    ]
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=None if partitions is None else topics,
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=started_ms,
    )
    return encode_version_prefixed(value, version)
