"""Fetches some of the partitions that this broker follows from one leader.

Kafka: ReplicaFetcherThread and AbstractFetcherThread.

    request      each partition from its log end offset, unless it is delayed
    send         an incremental fetch; the leader waits until it has records
    append       records are appended; high watermark and log start offset follow the leader's
    diverging    a log with records that the leader does not have is truncated and fetched again
    throttled    delayed until the quota allows more, unless the partition is caught up
    rejected     delayed for a backoff; the controller will announce the leader
    failed       delayed as well: an error of one partition does not stop the others

A response for a partition is ignored if the partition has left the epoch of the request, or if its
log end offset differs from the requested offset: the records might not continue its log.

Only partitions that changed since the last fetch are checked; see partition_fetch_states.py.

Invariant: no fetch contains a log that is being truncated, by this fetcher or another.  A fetcher
starts to truncate only partitions that it follows (log_truncator.py), and does not fetch them
meanwhile.  A truncation that began in an earlier epoch is noticed when the partition is followed
again, and checked until it has ended.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.replicas.fetch_session_handler import FetchRequestPartition, FetchSessionHandler
from odradek.broker.replicas.log_truncator import LogMaintenance, LogTruncator, TruncatableLogs
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.partition_fetch_state import PartitionFetchState
from odradek.broker.replicas.partition_fetch_states import PartitionFetchStates
from odradek.broker.replicas.replication_quota_manager import ReplicationQuotaManager
from odradek.broker.replicas.truncation import truncation_offset
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import TopicPartition
from odradek.storage.leader_epoch_file_cache import NO_EPOCH, EpochEnd
from odradek.storage.timestamp_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

log = logging.getLogger("kafka.server")

PartitionResponse = FetchResponse.Topic.Partition

#: The last version with topic names, and one that carries the broker epoch of the follower.
TOPIC_NAME_VERSION, TOPIC_ID_VERSION = 12, 17
LIST_OFFSETS_VERSION = 7
#: The delay between two checks of a log that is being truncated.
MIN_DELAY_S = 0.01
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """The dependencies of all fetchers of a broker."""

    broker_id: int
    log_manager: TruncatableLogs
    log_maintenance: LogMaintenance
    settings: Callable[[], ReplicationSettings]
    broker_epoch: Callable[[], int]
    now_ms: Callable[[], int]
    follower_quota: ReplicationQuotaManager


class ReplicaFetcher:
    """One connection to one leader."""

    def __init__(self, leader: Node, client: Client, context: FetcherContext) -> None:
        self.leader = leader
        self._client = client
        self._context = context
        self._session_handler = FetchSessionHandler()
        self._fetch_states = PartitionFetchStates()
        self._truncator = LogTruncator(
            self._fetch_states, context.log_manager, context.log_maintenance, context.now_ms
        )
        self._wakeup = asyncio.Event()
        self._is_throttled = False
        self._is_leader_reachable = True
        self._is_closed = False

    def add_partition(self, partition: Partition) -> None:
        self._fetch_states.add_partition(partition)
        self._wakeup.set()

    def remove_partition(self, partition: TopicPartition) -> None:
        self._fetch_states.remove_partition(partition)

    def partitions(self) -> list[Partition]:
        return [fetch_state.partition for fetch_state in self._fetch_states]

    @property
    def is_idle(self) -> bool:
        return not self._fetch_states

    def close(self) -> None:
        """Stop the fetcher; its task ends by itself, because a running truncation must complete."""
        self._is_closed = True
        self._fetch_states.remove_all()
        self._client.close()
        self._wakeup.set()

    async def run(self) -> None:
        while not self._is_closed:
            try:
                await self._do_work()
            except Exception:
                # Continue, or nothing of this leader would be replicated here any more.
                log.exception("Unexpected error in fetcher for broker %d; retrying", self.leader.id)
                self._reset_session()
                await asyncio.sleep(self._backoff_s)
        self._client.close()  # again: it may have reconnected meanwhile

    async def _do_work(self) -> None:
        await self._update_session()
        if self._session_handler.is_empty:
            await self._wait_for_work()
            return
        try:
            response = await self._fetch()
        except (OSError, DecodeError) as error:
            await self._handle_unreachable_leader(str(error))
            return
        await self._process_response(response)

    async def _wait_for_work(self) -> None:
        """Wait until a partition is added or due."""
        if self._is_closed:
            return
        self._wakeup.clear()
        due_s = self._fetch_states.next_due_s
        timeout_s = None if self.is_idle else max(MIN_DELAY_S, due_s - monotonic())
        with suppress(TimeoutError):  # on timeout a partition is due
            async with asyncio.timeout(timeout_s):
                await self._wakeup.wait()

    async def _handle_unreachable_leader(self, reason: str) -> None:
        if self._is_closed:
            return
        if self._is_leader_reachable:
            log.warning(
                "Error in response for fetch request to broker %d: %s", self.leader.id, reason
            )
        self._is_leader_reachable = False
        self._reset_session()
        await asyncio.sleep(self._backoff_s)

    def _reset_session(self) -> None:
        """Start a new session and check all partitions again."""
        self._session_handler.reset()
        self._fetch_states.mark_all_dirty()

    @property
    def _backoff_s(self) -> float:
        return self._context.settings().fetch_backoff_ms / 1000

    # Requests

    async def _update_session(self) -> None:
        """Update the session from all dirty partitions.

        The loop repeats until none is dirty, so nothing changes between the update and the fetch.
        """
        fetch_states, quota = self._fetch_states, self._context.follower_quota
        if quota.is_quota_exceeded != self._is_throttled:
            self._is_throttled = not self._is_throttled
            fetch_states.mark_all_dirty()
        fetch_states.mark_due_dirty(monotonic())
        time_slice = TimeSlice()
        while dirty := fetch_states.take_dirty():
            for topic_partition in dirty:
                fetch_state = fetch_states.find(topic_partition)
                if fetch_state is not None and fetch_state.needs_truncation_check:
                    await self._truncate_to_high_watermark(fetch_state)
                self._session_handler.update(
                    topic_partition, self._build_partition_request(fetch_state)
                )
                if time_slice.is_used_up:
                    await time_slice.yield_to_loop()

    def _build_partition_request(
        self, fetch_state: PartitionFetchState | None
    ) -> FetchRequestPartition | None:
        """Return the request; None if the partition is delayed, to be checked when it is due."""
        if fetch_state is None:
            return None
        topic_partition, quota, now = (
            fetch_state.partition.topic_partition,
            self._context.follower_quota,
            monotonic(),
        )
        fetch_state.requested_offset = None
        if fetch_state.partition.hosted_log.is_truncating:  # since an earlier epoch
            fetch_state.delayed_until = max(fetch_state.delayed_until, now + MIN_DELAY_S)
        elif not fetch_state.is_caught_up and quota.should_throttle(topic_partition):
            # Not longer than the backoff, because the quota may be raised meanwhile.
            throttle_s = min(quota.rate.throttle_time_s, self._backoff_s)
            fetch_state.delayed_until = max(fetch_state.delayed_until, now + throttle_s)
        if fetch_state.delayed_until > now:
            self._fetch_states.delay(topic_partition, fetch_state.delayed_until)
            return None
        if fetch_state.needs_truncation_check or not fetch_state.is_current:
            return None
        return fetch_state.build_request(self._context.settings().fetch_max_bytes)

    async def _fetch(self) -> FetchResponse:
        settings, context = self._context.settings(), self._context
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            topics=[],
        )
        self._session_handler.fill_request(request)
        version = (
            TOPIC_ID_VERSION if self._session_handler.can_use_topic_ids else TOPIC_NAME_VERSION
        )
        if version == TOPIC_ID_VERSION:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=context.broker_id, replica_epoch=context.broker_epoch()
            )
        else:
            request.replica_id = context.broker_id
        response = await self._client.send(request, version=version)
        assert isinstance(response, FetchResponse), response
        return response

    # Responses

    async def _process_response(self, response: FetchResponse) -> None:
        error = ErrorCode.for_code(response.error_code)
        if error is not ErrorCode.NONE:
            # A session error means an expired session only if the request used a session.
            is_session_gone = error in _SESSION_ERRORS and not self._session_handler.is_full_request
            self._reset_session()
            if not is_session_gone:
                await self._handle_unreachable_leader(error.name)
            return
        self._is_leader_reachable = True
        topic_names = self._session_handler.topic_names()
        self._session_handler.handle_response(response)
        if not response.responses:
            self._fetch_states.mark_all_dirty()
        time_slice = TimeSlice()
        for topic in response.responses:
            name = topic.topic or topic_names.get(topic.topic_id, "")
            for partition_response in topic.partitions:
                await self._process_partition_response(
                    TopicPartition(name, partition_response.partition_index), partition_response
                )
                if time_slice.is_used_up:
                    await time_slice.yield_to_loop()

    async def _process_partition_response(
        self, topic_partition: TopicPartition, partition_response: PartitionResponse
    ) -> None:
        """Process the response of a partition and mark the partition dirty in any case."""
        self._fetch_states.mark_dirty(topic_partition)
        fetch_state = self._fetch_states.find(topic_partition)
        if fetch_state is None or not fetch_state.matches_request:
            return
        try:
            await self._process_partition_data(fetch_state, partition_response)
        except Exception as error:  # noqa: BLE001 - it is logged, once
            self._handle_partition_error(fetch_state, error)

    async def _process_partition_data(
        self, fetch_state: PartitionFetchState, partition_response: PartitionResponse
    ) -> None:
        error = ErrorCode.for_code(partition_response.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._fetch_offset_and_truncate(fetch_state)
        elif error is not ErrorCode.NONE:
            self._delay_partition(fetch_state, error.name)
        elif (
            partition_response.diverging_epoch.epoch >= 0
            or partition_response.diverging_epoch.end_offset >= 0
        ):
            diverging_epoch_end = EpochEnd(
                partition_response.diverging_epoch.epoch,
                partition_response.diverging_epoch.end_offset,
            )
            await self._truncator.truncate(
                fetch_state, truncation_offset(fetch_state.partition.log, diverging_epoch_end)
            )
        else:
            records = partition_response.records or b""
            assert not isinstance(records, FileRegion), records
            fetch_state.partition.append_as_follower(
                memoryview(records),
                leader_epoch=fetch_state.leader_epoch,
                leader_high_watermark=partition_response.high_watermark,
                leader_log_start_offset=partition_response.log_start_offset,
                now_ms=self._context.now_ms(),
            )
            fetch_state.on_fetched(leader_high_watermark=partition_response.high_watermark)
            self._context.follower_quota.record(fetch_state.partition.topic_partition, len(records))

    def _handle_partition_error(self, fetch_state: PartitionFetchState, error: Exception) -> None:
        """Delay only the partition that failed."""
        if isinstance(error, KafkaError | OSError | DecodeError):
            self._delay_partition(fetch_state, str(error), level=logging.WARNING)
        else:
            self._delay_partition(fetch_state, repr(error), level=logging.ERROR, error=error)

    def _delay_partition(
        self,
        fetch_state: PartitionFetchState,
        reason: str,
        *,
        level: int = logging.INFO,
        error: Exception | None = None,
    ) -> None:
        """Back off; log each reason only once, however often the fetch is retried."""
        fetch_state.back_off(now_s=monotonic(), max_backoff_s=self._backoff_s)
        if fetch_state.last_error != reason:
            fetch_state.last_error = reason
            args = (fetch_state.partition.topic_partition, self.leader.id, reason)
            log.log(
                level, "Delaying fetch of partition %s from broker %d: %s", *args, exc_info=error
            )

    # Truncation

    async def _truncate_to_high_watermark(self, fetch_state: PartitionFetchState) -> None:
        """Truncate a log without epochs, which cannot be compared, to its high watermark."""
        partition, local_log = fetch_state.partition, fetch_state.partition.log
        if partition.hosted_log.is_truncating or fetch_state.delayed_until > monotonic():
            return
        try:
            if (
                local_log.leader_epoch_cache.latest_epoch == NO_EPOCH
                and local_log.log_end_offset > local_log.high_watermark
            ):
                await self._truncator.truncate(fetch_state, local_log.high_watermark)
            fetch_state.needs_truncation_check = False
        except Exception as error:  # noqa: BLE001 - it is logged, once
            self._handle_partition_error(fetch_state, error)

    async def _fetch_offset_and_truncate(self, fetch_state: PartitionFetchState) -> None:
        """Handle OFFSET_OUT_OF_RANGE: the leader's log ends before ours, or starts after it."""
        local_end = fetch_state.partition.log.log_end_offset
        leader_end = await self._fetch_leader_offset(fetch_state, LATEST_TIMESTAMP)
        if leader_end < local_end:
            await self._truncator.truncate(fetch_state, leader_end)
            return
        leader_start = await self._fetch_leader_offset(fetch_state, EARLIEST_TIMESTAMP)
        if leader_start <= local_end:
            # The leader has our offset by now.  Delay, in case it returns the same error again.
            self._delay_partition(fetch_state, ErrorCode.OFFSET_OUT_OF_RANGE.name)
            return
        await self._truncator.truncate_fully_and_start_at(fetch_state, leader_start)

    async def _fetch_leader_offset(self, fetch_state: PartitionFetchState, timestamp: int) -> int:
        """Return the offset from ListOffsets; raise the leader's error."""
        topic, index = fetch_state.partition.topic_partition
        partition_request = ListOffsetsRequest.Topic.Partition(
            partition_index=index,
            current_leader_epoch=fetch_state.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._context.broker_id,
            topics=[ListOffsetsRequest.Topic(name=topic, partitions=[partition_request])],
        )
        response = await self._client.send(request, version=LIST_OFFSETS_VERSION)
        assert isinstance(response, ListOffsetsResponse), response
        ((partition_response,),) = [topic_response.partitions for topic_response in response.topics]
        if partition_response.error_code:
            raise KafkaError(error_code=ErrorCode.for_code(partition_response.error_code))
        return partition_response.offset
