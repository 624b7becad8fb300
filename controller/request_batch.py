"""The control requests that one controller event sends to the brokers.

Kafka: ControllerBrokerRequestBatch.  The state machines and event handlers add the partitions that
changed.  ``send_requests_to_brokers`` then builds one request of each type per broker from the
current controller context.  A partition that changed twice is sent once, in its last state.  The
requests are sent in this order:

    LeaderAndIsr    to brokers with replicas: the partitions that they lead and follow
    UpdateMetadata  to all brokers: the changed partitions; to new brokers: all partitions
    StopReplica     to brokers that must stop replicas, and possibly delete them

A request is sent only to brokers that are registered both when it is added and when it is sent.
LeaderAndIsr for a replica cancels a StopReplica of the same event that does not delete the replica.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from odradek.controller.control_request_builder import (
    BrokerRequest,
    ControlRequestBuilder,
    StopReplicaPartition,
)
from odradek.controller.controller_channel import ControlRequest
from odradek.controller.controller_context import ControllerContext, PartitionAndReplica
from odradek.protocol.types import TopicPartition

log = logging.getLogger("state.change.logger")

Value = TypeVar("Value")


class RequestSender(Protocol):
    """The part of the controller channels that a batch needs."""

    def send(self, broker_id: int, request: ControlRequest, *, version: int) -> None: ...


class ControllerBrokerRequestBatch:
    """Collects requests until ``send_requests_to_brokers``, which leaves the batch empty."""

    def __init__(
        self,
        context: ControllerContext,
        request_builder: ControlRequestBuilder,
        sender: RequestSender,
    ) -> None:
        self._context = context
        self._request_builder = request_builder
        self._sender = sender
        self.clear()

    def clear(self) -> None:
        #: broker -> partition -> whether the replica is new
        self._leader_and_isr_partitions: dict[int, dict[TopicPartition, bool]] = {}
        self._stop_replica_partitions: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}
        self._update_metadata_partitions: dict[TopicPartition, None] = {}
        self._is_update_metadata_needed = False
        self._new_broker_ids: set[int] = set()

    def add_leader_and_isr_request(
        self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Send LeaderAndIsr to these brokers, and UpdateMetadata to all.

        A replica that was added as new stays new for the rest of the event.
        """
        for broker in broker_ids:
            if broker in self._context.brokers:
                partitions = self._leader_and_isr_partitions.setdefault(broker, {})
                partitions[partition] = is_new or partitions.get(partition, False)
                self._cancel_stop_replica(broker, partition)
        self.add_update_metadata_request([partition])

    def add_update_metadata_request(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Send UpdateMetadata with these partitions and the live brokers to all brokers."""
        self._is_update_metadata_needed = True
        self._update_metadata_partitions.update(dict.fromkeys(partitions))

    def add_full_update_metadata_request(self, broker_ids: Iterable[int]) -> None:
        """Send UpdateMetadata with all partitions to these brokers, which are new."""
        self._new_broker_ids.update(broker_ids)

    def add_stop_replica_request(
        self, replica: PartitionAndReplica, *, delete_partition: bool
    ) -> None:
        """Send StopReplica; a requested deletion stays requested for the rest of the event."""
        partition, broker = replica
        if broker in self._context.brokers:
            stops = self._stop_replica_partitions.setdefault(broker, {})
            delete_partition = delete_partition or (
                partition in stops and stops[partition].delete_partition
            )
            stops[partition] = StopReplicaPartition(
                self._context.stop_replica_leader_epoch(partition), delete_partition
            )

    def send_requests_to_brokers(self) -> None:
        by_broker = self._only_registered(self._leader_and_isr_partitions)
        for broker_request in self._request_builder.leader_and_isr_requests(by_broker):
            self._log_leader_and_isr(broker_request.broker_id, by_broker[broker_request.broker_id])
            self._send(broker_request)
        new_brokers = self._only_registered(dict.fromkeys(sorted(self._new_broker_ids)))
        self._send_update_metadata(new_brokers, [*self._context.partitions] if new_brokers else ())
        if self._is_update_metadata_needed:
            others = [each for each in self._context.brokers if each not in new_brokers]
            self._send_update_metadata(others, self._update_metadata_partitions)
        stops = self._only_registered(self._stop_replica_partitions)
        for broker_request in self._request_builder.stop_replica_requests(stops):
            count = len(stops[broker_request.broker_id])
            log.info(
                "Sending StopReplica request to broker %d for %d replica(s)",
                broker_request.broker_id,
                count,
            )
            self._send(broker_request)
        self.clear()

    def _send_update_metadata(
        self, broker_ids: Collection[int], partitions: Collection[TopicPartition]
    ) -> None:
        if broker_ids:
            log.info(
                "Sending UpdateMetadata request to brokers %s for %d partition(s)",
                [*broker_ids],
                len(partitions),
            )
            for broker_request in self._request_builder.update_metadata_requests(
                broker_ids, partitions
            ):
                self._send(broker_request)

    def _send(self, broker_request: BrokerRequest) -> None:
        self._sender.send(
            broker_request.broker_id, broker_request.request, version=broker_request.version
        )

    def _only_registered(self, by_broker: Mapping[int, Value]) -> dict[int, Value]:
        registered = self._context.brokers
        return {broker: value for broker, value in by_broker.items() if broker in registered}

    def _cancel_stop_replica(self, broker_id: int, partition: TopicPartition) -> None:
        stops = self._stop_replica_partitions.get(broker_id, {})
        if partition in stops and not stops[partition].delete_partition:
            del stops[partition]
            if not stops:
                del self._stop_replica_partitions[broker_id]

    def _log_leader_and_isr(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        leaders = [self._context.leader(partition) for partition in partitions]
        leader_count = leaders.count(broker_id)
        log.info(
            "Sending LeaderAndIsr request to broker %d with %d become-leader and "
            "%d become-follower partition(s)",
            broker_id,
            leader_count,
            len(leaders) - leader_count,
        )
