"""Offset lookup: finds the offset of a partition for a timestamp, or its start or end offset.

Kafka: Partition.fetchOffsetForTimestamp, for ListOffsets requests.

    -1 latest            the end of the records that the requester may read
    -2 earliest          the log start offset
    -3 max timestamp     the record with the largest timestamp
    -4 earliest local    the log start offset: there is no tiered storage
    -5 latest tiered     none, for the same reason

Offsets beyond the isolation of the requester are not found.  While the high watermark of a new
leader is below the start offset of its epoch, such a result may soon be wrong: the lookup then
raises OffsetNotAvailable (KIP-207).

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.broker.replicas.partition import Partition
from odradek.protocol.errors import KafkaError, OffsetNotAvailable
from odradek.storage import timestamp_lookup
from odradek.storage.timestamp_lookup import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BatchLookup,
    TimestampAndOffset,
    find_in_batch,
)
from odradek.storage.unified_log import UnifiedLog

MAX_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP = -3, -4, -5
_NO_OFFSET = TimestampAndOffset(-1)


@dataclass(frozen=True, slots=True)
class FetchIsolation:
    """How much of a log a requester may read, and whether the leader must serve it."""

    is_bounded: bool = True  # by the high watermark or the last stable offset
    is_read_committed: bool = False
    needs_leader: bool = True


class OffsetLookup:
    """Finds offsets in one partition."""

    def __init__(
        self, partition: Partition, isolation: FetchIsolation, search: BatchLookup = find_in_batch
    ) -> None:
        self._partition = partition
        self._isolation = isolation
        self._search = search

    def find_offset(
        self, timestamp: int, *, current_leader_epoch: int
    ) -> TimestampAndOffset | None:
        """Return None if no record is that recent, or none that the requester may read."""
        partition = self._partition
        self._check_leader(current_leader_epoch)
        end = partition.readable_end_offset(
            is_follower=not self._isolation.is_bounded,
            is_read_committed=self._isolation.is_read_committed,
        )
        with partition.hosted_log as log:
            if timestamp == LATEST_TIMESTAMP:
                self._check_offset_available(log)
                return TimestampAndOffset(end, leader_epoch=partition.leader_epoch)
            if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                return timestamp_lookup.earliest_offset(log)
            if timestamp == LATEST_TIERED_TIMESTAMP:
                return _NO_OFFSET
            if timestamp == MAX_TIMESTAMP:
                result = timestamp_lookup.offset_of_max_timestamp(log, self._search)
            else:
                result = timestamp_lookup.offset_for_timestamp(log, timestamp, self._search)
            if result is None or result.offset >= end:
                self._check_offset_available(log)
                return None
            return result

    def legacy_offsets_before(self, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
        """Return base offsets of segments that are not newer, newest first (version 0)."""
        self._check_leader()
        if max_offsets < 0:
            raise KafkaError(f"max_num_offsets={max_offsets}: must not be negative")
        with self._partition.hosted_log as log:
            offsets = timestamp_lookup.legacy_offsets_before(
                log, timestamp, max_offsets=max_offsets, now_ms=now_ms
            )
            if not self._isolation.is_bounded or not offsets or offsets[0] <= log.high_watermark:
                return offsets
            visible = [offset for offset in offsets if offset <= log.high_watermark]
            return [log.high_watermark, *visible]

    def _check_leader(self, current_leader_epoch: int = -1) -> None:
        if self._isolation.needs_leader:
            self._partition.require_leader(current_leader_epoch)
        else:
            self._partition.check_current_leader_epoch(current_leader_epoch)

    def _check_offset_available(self, log: UnifiedLog) -> None:
        leader_state = self._partition.leader_state
        if (
            self._isolation.is_bounded
            and leader_state is not None
            and leader_state.leader_epoch_start_offset > log.high_watermark
        ):
            raise OffsetNotAvailable(
                f"high watermark of {self._partition.topic_partition} is {log.high_watermark}, "
                f"below the leader epoch start offset {leader_state.leader_epoch_start_offset}"
            )
