"""Partition reader: reads one partition for a fetch, and returns its records or raises an error.

The steps are

    find         the partition is on this broker, and has the requested topic id
    leader       the requested leader epoch is current; this broker must lead if that is required
    divergence   a requester with records of an epoch that ended earlier here must truncate first
    records      from the batch with the fetch offset, up to the end that the requester may read

Records stay in their file: the response has a region of the file.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Protocol

from odradek.broker.fetching.fetch_partition import (
    FetchPartition,
    PartitionRequest,
    PartitionResponse,
)
from odradek.broker.fetching.replica_selector import ClientMetadata, RackAwareReplicaSelector
from odradek.broker.replicas.fetch_data_info import FetchDataInfo
from odradek.broker.replicas.leader_state import FollowerFetchState, LeaderState
from odradek.broker.replicas.partition import NO_LEADER_EPOCH, Partition
from odradek.broker.replicas.replication_quota_manager import ReplicationQuotaManager
from odradek.protocol.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import ZERO_UUID, Uuid
from odradek.storage import files
from odradek.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_END

EMPTY_RECORDS = b""
INVALID_HIGH_WATERMARK = -1
_LAST_VERSION_WITH_HARD_LIMITS = 2
_FIRST_VERSION_WITH_STORAGE_ERRORS = 6
#: The beginning of a batch in every format: its offset, and the size of the rest.
_BATCH_SIZE_FIELD = Struct(">8xi")
_DivergingEpoch = PartitionResponse.EpochEndOffset


class HostedPartitions(Protocol):
    """The part of the replica manager that reading uses."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class TopicMetadata(Protocol):
    """The part of the metadata cache that reading uses."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def topic_name(self, topic_id: Uuid, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Fetch policy of the broker: maximum bytes, follower throttling and replica selection."""

    fetch_max_bytes: int
    leader_quota: ReplicationQuotaManager
    replica_selector: RackAwareReplicaSelector | None = None


@dataclass(slots=True)
class FetchParams:
    """Parameters of all partitions of one fetch; treat as immutable."""

    version: int
    replica_id: int  # of a follower; negative for a consumer
    replica_epoch: int  # the broker epoch of the follower, if the request has it
    max_bytes: int
    min_bytes: int
    is_read_committed: bool  # up to the last stable offset
    needs_leader: bool
    client_metadata: ClientMetadata

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def has_hard_limits(self) -> bool:
        return self.version <= _LAST_VERSION_WITH_HARD_LIMITS

    def error_code(self, error: KafkaError) -> int:
        """Return the error code; old consumers get NOT_LEADER_OR_FOLLOWER for storage errors."""
        is_too_new = isinstance(error, KafkaStorageError)
        if is_too_new and self.version < _FIRST_VERSION_WITH_STORAGE_ERRORS:
            return NotLeaderOrFollower.error_code.code
        return code_of(error)


class PartitionReader:
    """Reads partitions one by one, with the same parameters."""

    __slots__ = (
        "_leader_quota",
        "_metadata_cache",
        "_replica_manager",
        "_replica_selector",
        "params",
    )

    def __init__(
        self,
        replica_manager: HostedPartitions,
        metadata_cache: TopicMetadata,
        policy: FetchPolicy,
        params: FetchParams,
    ) -> None:
        self._replica_manager = replica_manager
        self._metadata_cache = metadata_cache
        self._leader_quota = policy.leader_quota
        self._replica_selector = None if params.is_follower else policy.replica_selector
        self.params = params

    def read(
        self, fetch_partition: FetchPartition, remaining_bytes: int, *, at_least_one: bool
    ) -> PartitionResponse:
        """Read at most ``remaining_bytes``, but one complete batch if ``at_least_one``."""
        partition_request, params = fetch_partition.partition_request, self.params
        partition = self._find_partition(fetch_partition)
        leader_state = self._check_leader_state(partition, partition_request)
        fetch_partition.leader_state = None
        if self._replica_selector is not None and leader_state is not None:
            preferred_replica = self._replica_selector.select(
                leader_state, params.client_metadata, partition_request.fetch_offset
            )
            if preferred_replica is not None:
                response = _empty_response(partition_request, partition)
                response.preferred_read_replica = preferred_replica
                return response
        if partition_request.last_fetched_epoch >= 0:
            diverging = _find_diverging_epoch(partition, partition_request)
            if diverging is not None:
                response = _empty_response(partition_request, partition)
                response.diverging_epoch = diverging
                return response
        up_to = self._readable_end_offset(partition)
        limit_bytes = min(partition_request.partition_max_bytes, remaining_bytes)
        offset, log = partition_request.fetch_offset, partition.hosted_log.log
        is_empty = (
            offset >= up_to
            or (limit_bytes == 0 and not at_least_one)
            or (params.is_follower and self._should_throttle(partition, leader_state))
        )
        if (
            is_empty
            and log.log_start_offset <= offset <= log.log_end_offset
            and partition.hosted_log.is_usable
        ):
            if offset >= up_to:
                fetch_partition.leader_state, fetch_partition.is_read_committed = (
                    leader_state,
                    params.is_read_committed,
                )
            response = _empty_response(partition_request, partition)
            if params.is_read_committed:
                response.aborted_transactions = []
            return response
        return self._read_records(partition, partition_request, limit_bytes, up_to, at_least_one)

    def _should_throttle(self, partition: Partition, leader_state: LeaderState | None) -> bool:
        """Whether to throttle the follower; one in the ISR never is."""
        is_in_sync = leader_state is not None and self.params.replica_id in leader_state.isr
        return not is_in_sync and self._leader_quota.should_throttle(partition.topic_partition)

    def record_sent_bytes(self, fetch_partitions: Iterable[FetchPartition]) -> None:
        """Record the bytes sent to a follower, in the ISR or not."""
        if not self.params.is_follower:
            return
        for fetch_partition in fetch_partitions:
            if (
                fetch_partition.partition_response is not None
                and fetch_partition.partition_response.records
                and fetch_partition.partition is not None
            ):
                topic_partition = fetch_partition.partition.topic_partition
                self._leader_quota.record(
                    topic_partition, len(fetch_partition.partition_response.records)
                )

    def update_follower_fetch_state(
        self,
        fetch_partition: FetchPartition,
        partition_response: PartitionResponse,
        follower_fetch_state: FollowerFetchState | None,
    ) -> None:
        """Record the fetch offset as the follower's log end offset, unless it must truncate."""
        partition_request = fetch_partition.partition_request
        if fetch_partition.partition is not None and partition_response.diverging_epoch.epoch < 0:
            fetch_partition.replica_state = fetch_partition.partition.update_follower_fetch_state(
                self.params.replica_id,
                fetch_offset=partition_request.fetch_offset,
                follower_start_offset=partition_request.log_start_offset,
                broker_epoch=self.params.replica_epoch,
                follower_fetch_state=follower_fetch_state,
            )
        else:
            fetch_partition.leave_session()

    def is_follower_state_unchanged(
        self,
        fetch_partition: FetchPartition,
        leader_state: LeaderState,
        follower_fetch_state: FollowerFetchState,
    ) -> bool:
        """Whether the follower is recorded at the log end, and the whole ISR has caught up."""
        replica_state, partition = fetch_partition.replica_state, fetch_partition.partition
        return (
            replica_state is not None
            and partition is not None
            and replica_state.follower_fetch_state is follower_fetch_state
            and leader_state.followers.get(self.params.replica_id) is replica_state
            and partition.log.high_watermark == partition.log.log_end_offset
            and self.params.replica_id in leader_state.isr
            and replica_state.broker_epoch == self.params.replica_epoch
        )

    def error_response(
        self, fetch_partition: FetchPartition, error: KafkaError
    ) -> PartitionResponse:
        fetch_partition.leader_state = None
        # An error says nothing about this partition's position in its fetch session.
        fetch_partition.leave_session()
        return PartitionResponse(
            partition_index=fetch_partition.partition_request.partition,
            error_code=self.params.error_code(error),
            high_watermark=INVALID_HIGH_WATERMARK,
            aborted_transactions=None,
            records=EMPTY_RECORDS,
        )

    def has_records_in_later_segment(self, fetch_partition: FetchPartition) -> bool:
        """Whether a later segment has readable records too; a read ends with its segment."""
        response, partition = fetch_partition.partition_response, fetch_partition.partition
        if response is None or not response.records or partition is None:
            return False
        last = partition.log.segments.floor_segment(self._readable_end_offset(partition) - 1)
        return (
            last is not None and last.base_offset > fetch_partition.partition_request.fetch_offset
        )

    def _find_partition(self, fetch_partition: FetchPartition) -> Partition:
        """Return the partition if it is on this broker and has the requested topic id."""
        index = fetch_partition.partition_request.partition
        if fetch_partition.topic is None:
            fetch_partition.topic = self._metadata_cache.topic_name(fetch_partition.topic_id)
            if fetch_partition.topic is None:
                raise UnknownTopicId(f"no topic has the id {fetch_partition.topic_id}")
        if not self._metadata_cache.has_partition(fetch_partition.topic, index):
            raise UnknownTopicOrPartition(f"there is no {fetch_partition.topic}-{index}")
        fetch_partition.partition = partition = self._replica_manager.partition(
            fetch_partition.topic, index
        )
        if fetch_partition.topic_id != ZERO_UUID and partition.topic_id not in (
            None,
            fetch_partition.topic_id,
        ):
            raise InconsistentTopicId(
                f"{fetch_partition.topic}-{index} has the topic id {partition.topic_id}"
            )
        return partition

    def _check_leader_state(
        self, partition: Partition, partition_request: PartitionRequest
    ) -> LeaderState | None:
        """Return the leader state, or None if a consumer reads from a follower."""
        params = self.params
        # Every negative epoch means none here; elsewhere only -1 does.
        known_epoch = max(NO_LEADER_EPOCH, partition_request.current_leader_epoch)
        if not params.needs_leader:
            partition.check_current_leader_epoch(known_epoch)
            return partition.leader_state
        leader_state = partition.require_leader(known_epoch)
        is_other = params.replica_id != partition.leader_id
        if params.is_follower and not (is_other and params.replica_id in leader_state.replicas):
            # The follower may learn about its assignment before this leader does: it should retry.
            error_type = (
                NotLeaderOrFollower if known_epoch == NO_LEADER_EPOCH else UnknownLeaderEpoch
            )
            raise error_type(
                f"broker {params.replica_id} is not a replica of {partition.topic_partition}"
            )
        return leader_state

    def _readable_end_offset(self, partition: Partition) -> int:
        params = self.params
        return partition.readable_end_offset(
            is_follower=params.replica_id >= 0, is_read_committed=params.is_read_committed
        )

    def _read_records(
        self,
        partition: Partition,
        partition_request: PartitionRequest,
        limit_bytes: int,
        up_to: int,
        at_least_one: bool,
    ) -> PartitionResponse:
        if limit_bytes < 0 and partition_request.fetch_offset < up_to:
            raise KafkaError(f"fetch limit of {limit_bytes} bytes: must not be negative")
        fetch_data_info = partition.read(
            partition_request.fetch_offset,
            max_bytes=limit_bytes,
            up_to=up_to,
            is_read_committed=self.params.is_read_committed,
            at_least_one=at_least_one,
        )
        records = fetch_data_info.records
        if records.length <= limit_bytes and not at_least_one:
            with partition.hosted_log:
                is_whole = self._has_whole_batch(records)
            if not is_whole:
                return _empty_response(partition_request, partition)
        return PartitionResponse(
            partition_index=partition_request.partition,
            error_code=0,
            high_watermark=fetch_data_info.high_watermark,
            last_stable_offset=fetch_data_info.last_stable_offset,
            log_start_offset=fetch_data_info.log_start_offset,
            aborted_transactions=_aborted_transactions(fetch_data_info),
            records=records if records.length else EMPTY_RECORDS,
        )

    def _has_whole_batch(self, records: FileRegion) -> bool:
        """Whether the first batch is complete, or may be incomplete."""
        if self.params.has_hard_limits or not records.length:
            return True
        if records.length < _BATCH_SIZE_FIELD.size:
            return False
        head = files.read_at(records.descriptor, _BATCH_SIZE_FIELD.size, records.position)
        return _BATCH_SIZE_FIELD.size + int(_BATCH_SIZE_FIELD.unpack(head)[0]) <= records.length


def _find_diverging_epoch(
    partition: Partition, partition_request: PartitionRequest
) -> _DivergingEpoch | None:
    """Return the end of the last common epoch if the logs have diverged (KIP-595)."""
    log, epoch = partition.log, partition_request.last_fetched_epoch
    end = log.leader_epoch_cache.end_offset_for(epoch, log_end_offset=log.log_end_offset)
    if end == UNDEFINED_EPOCH_END:
        raise OffsetOutOfRange(f"{partition.topic_partition} has no leader epoch {epoch}")
    if partition_request.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"{partition.topic_partition}: log start offset {log.log_start_offset} is above "
            f"fetch offset {partition_request.fetch_offset}"
        )
    if end.epoch < epoch or end.end_offset < partition_request.fetch_offset:
        return _DivergingEpoch(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _empty_response(partition_request: PartitionRequest, partition: Partition) -> PartitionResponse:
    log = partition.hosted_log.log
    return PartitionResponse(
        partition_index=partition_request.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=EMPTY_RECORDS,
    )


def _aborted_transactions(
    fetch_data_info: FetchDataInfo,
) -> list[PartitionResponse.AbortedTransaction] | None:
    if fetch_data_info.aborted_transactions is None:
        return None
    return [
        PartitionResponse.AbortedTransaction(
            producer_id=transaction.producer_id, first_offset=transaction.first_offset
        )
        for transaction in fetch_data_info.aborted_transactions
    ]
