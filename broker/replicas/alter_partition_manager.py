"""Proposes ISR changes of the partitions that this broker leads to the controller.

Kafka: AlterPartitionManager.

A leader proposes a change by AlterPartition.  One request is in flight at a time, and proposals
that arrive meanwhile are sent together in the next one.  A leader proposes no other change of a
partition until the controller has responded.  The outcomes of a proposal are:

    success      the partition takes the ISR and the partition epoch that the controller wrote
    superseded   another broker leads, or the leader's state is older than the controller's: the
                 leader waits for the next LeaderAndIsr request
    ineligible   the controller knows that the follower is offline or has restarted: the leader may
                 propose it again after a while
    otherwise    the proposal is sent again, to the controller of that time

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.broker.replicas.leader_state import LeaderState
from odradek.broker.replicas.partition import Partition
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.schema import Message
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

log = logging.getLogger("kafka.cluster")

PartitionRequest = AlterPartitionRequest.Topic.Partition

#: The last version with topic names, and the first one with the broker epochs of replicas.
TOPIC_NAME_VERSION, TOPIC_ID_VERSION = 1, 3
RETRY_BACKOFF_S = 0.05

_SUPERSEDED_ERRORS = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_INELIGIBLE_ERRORS = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})


class ClusterMetadata(Protocol):
    """The part of the metadata cache that the ISR needs."""

    def is_alive(self, broker_id: int, /) -> bool: ...


class ControllerChannel(Protocol):
    """Sends requests of this broker to the active controller.

    Raises KafkaError if there is no response.
    """

    @property
    def broker_id(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...

    async def send(self, request: Message, /, *, version: int) -> Message: ...


class AlterPartitionItem(NamedTuple):
    """A proposal of a leader; valid until its leader epoch ends."""

    partition: Partition
    leader_state: LeaderState
    isr: frozenset[int]
    #: The broker epochs in which the followers caught up.  They stay the same on a retry, because
    #: a follower that has restarted since may have lost records.
    broker_epochs: Mapping[int, int]

    @property
    def is_current(self) -> bool:
        return (
            self.partition.leader_state is self.leader_state
            and self.leader_state.pending_isr == self.isr
        )


class AlterPartitionManager:
    """Proposes the ISR changes of all partitions that this broker leads."""

    def __init__(
        self,
        metadata_cache: ClusterMetadata,
        controller: ControllerChannel,
        *,
        lag_max_ms: Callable[[], int],
        now_ms: Callable[[], int],
        start_task: Callable[[Coroutine[Any, Any, None], str], object],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._metadata_cache = metadata_cache
        self._controller = controller
        self._lag_max_ms = lag_max_ms
        self.now_ms = now_ms
        self._start_task = start_task
        self._sleep = sleep
        self._unsent_items: dict[TopicPartition, AlterPartitionItem] = {}
        self._is_in_flight = False
        #: The last error, to log each error only once.
        self._last_error: str | None = None

    @property
    def lag_max_ms(self) -> int:
        return self._lag_max_ms()

    def is_eligible(self, replica_id: int) -> bool:
        return self._metadata_cache.is_alive(replica_id)

    def submit(self, partition: Partition, isr: frozenset[int]) -> None:
        leader_state = partition.require_leader()
        topic_partition = partition.topic_partition
        current, proposed = sorted(leader_state.isr), sorted(isr)
        change = "Shrinking" if len(proposed) < len(current) else "Expanding"
        log.info("%s: %s ISR from %s to %s", topic_partition, change, current, proposed)
        broker_epochs = {
            replica_id: self._broker_epoch_of(replica_id, leader_state) for replica_id in isr
        }
        self._unsent_items[topic_partition] = AlterPartitionItem(
            partition, leader_state, isr, broker_epochs
        )
        if not self._is_in_flight:
            self._is_in_flight = True
            self._start_task(self._send_all(), "in-sync replicas")

    def _broker_epoch_of(self, replica_id: int, leader_state: LeaderState) -> int:
        if replica_id == self._controller.broker_id:
            return self._controller.broker_epoch
        return leader_state.broker_epoch_of(replica_id)

    async def _send_all(self) -> None:
        try:
            while self._unsent_items:
                items, self._unsent_items = self._unsent_items, {}
                current = {
                    topic_partition: item
                    for topic_partition, item in items.items()
                    if item.is_current
                }
                try:
                    retry = await self._send_by_version(current)
                except Exception as error:  # noqa: BLE001 - it is logged, once
                    # Retry, or the leaders of these partitions would never propose again.
                    retry = current
                    self._log_retry(repr(error), error)
                if retry:
                    self._unsent_items = {**retry, **self._unsent_items}
                    await self._sleep(RETRY_BACKOFF_S)
        finally:
            self._is_in_flight = False

    async def _send_by_version(
        self, items: Mapping[TopicPartition, AlterPartitionItem]
    ) -> dict[TopicPartition, AlterPartitionItem]:
        """Send the proposals; return those that must be sent again."""
        retry: dict[TopicPartition, AlterPartitionItem] = {}
        for version in (TOPIC_NAME_VERSION, TOPIC_ID_VERSION):
            matching = {
                topic_partition: item
                for topic_partition, item in items.items()
                if (item.partition.topic_id is not None) == (version == TOPIC_ID_VERSION)
            }
            if matching:
                retry |= await self._send_request(matching, version)
        return retry

    async def _send_request(
        self, items: dict[TopicPartition, AlterPartitionItem], version: int
    ) -> dict[TopicPartition, AlterPartitionItem]:
        request = AlterPartitionRequest(
            broker_id=self._controller.broker_id,
            broker_epoch=self._controller.broker_epoch,
            topics=_request_topics(items.values()),
        )
        try:
            response = await self._controller.send(request, version=version)
        except KafkaError as error:
            self._log_retry(str(error))
            return items
        assert isinstance(response, AlterPartitionResponse), response
        if response.error_code:
            self._log_retry(ErrorCode.for_code(response.error_code).name)
            return items
        remaining = _handle_response(items, response, now_ms=self.now_ms())
        if remaining:
            self._log_retry(", ".join(sorted(_error_names(response))))
        else:
            self._last_error = None
        return remaining

    def _log_retry(self, reason: str, error: Exception | None = None) -> None:
        """Log each reason only once, because proposals are sent again many times a second."""
        if reason != self._last_error:
            self._last_error = reason
            level = logging.INFO if error is None else logging.ERROR
            log.log(level, "Failed to alter ISR; retrying: %s", reason, exc_info=error)


def _request_topics(items: Iterable[AlterPartitionItem]) -> list[AlterPartitionRequest.Topic]:
    topics: dict[tuple[str, Uuid], list[PartitionRequest]] = {}
    for partition, leader_state, isr, broker_epochs in items:
        topic, index = partition.topic_partition
        partition_request = PartitionRequest(
            partition_index=index,
            leader_epoch=leader_state.epoch,
            partition_epoch=partition.partition_epoch,
        )
        if partition.topic_id is None:
            partition_request.new_isr = sorted(isr)
        else:
            partition_request.new_isr_with_epochs = [
                PartitionRequest.BrokerState(
                    broker_id=replica_id, broker_epoch=broker_epochs[replica_id]
                )
                for replica_id in sorted(isr)
            ]
        topics.setdefault((topic, partition.topic_id or ZERO_UUID), []).append(partition_request)
    return [
        AlterPartitionRequest.Topic(
            topic_name=name, topic_id=topic_id, partitions=partition_requests
        )
        for (name, topic_id), partition_requests in topics.items()
    ]


def _error_names(response: AlterPartitionResponse) -> set[str]:
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    return {
        ErrorCode.for_code(partition.error_code).name
        for partition in partitions
        if partition.error_code
    }


def _handle_response(
    items: Mapping[TopicPartition, AlterPartitionItem],
    response: AlterPartitionResponse,
    *,
    now_ms: int,
) -> dict[TopicPartition, AlterPartitionItem]:
    """Apply the response to each partition; return the proposals that must be sent again."""
    topic_names = {
        item.partition.topic_id: topic_partition.topic for topic_partition, item in items.items()
    }
    remaining = dict(items)
    for topic in response.topics:
        name = topic.topic_name or topic_names.get(topic.topic_id, "")
        for partition_response in topic.partitions:
            topic_partition = TopicPartition(name, partition_response.partition_index)
            item = items.get(topic_partition)
            if item is not None and _handle_partition_response(
                item, partition_response, now_ms=now_ms
            ):
                del remaining[topic_partition]
    return {topic_partition: item for topic_partition, item in remaining.items() if item.is_current}


def _handle_partition_response(
    item: AlterPartitionItem,
    partition_response: AlterPartitionResponse.Topic.Partition,
    *,
    now_ms: int,
) -> bool:
    partition, leader_state, isr, _ = item
    error = ErrorCode.for_code(partition_response.error_code)
    if error is ErrorCode.NONE:
        if item.is_current and partition_response.leader_epoch == leader_state.epoch:
            if partition_response.partition_epoch < partition.partition_epoch:
                return False  # the response may belong to an earlier request: send again
            log.info(
                "%s: ISR updated to %s and version updated to %d",
                partition.topic_partition,
                partition_response.isr,
                partition_response.partition_epoch,
            )
            partition.update_isr(
                partition_response.isr, partition_epoch=partition_response.partition_epoch
            )
        return True
    if error not in _INELIGIBLE_ERRORS | _SUPERSEDED_ERRORS:
        return False
    log.info("%s: Controller rejected the ISR change: %s", partition.topic_partition, error.name)
    if error in _INELIGIBLE_ERRORS and item.is_current:
        leader_state.reject_pending_isr(isr, now_ms=now_ms)
    return True
