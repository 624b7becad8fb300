"""Builds LeaderAndIsr, UpdateMetadata and StopReplica requests from the controller context.

Kafka: AbstractControllerBrokerRequestBatch.sendRequestsToBrokers.

The requests have the versions that all brokers of the cluster support.  The oldest versions have a
flat list of partitions, later ones group them by topic.  Before StopReplica 3 one request either
deletes all its partitions or none.  Parts that are equal for several brokers are built once and
shared; nothing changes a request after it is built.

Owner: the event loop; this module reads the context and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from odradek.controller.controller_context import Broker, ControllerContext
from odradek.controller.leader_and_isr import LEADER_DURING_DELETE, LeaderIsrAndControllerEpoch
from odradek.controller.metadata_version import RequestVersions
from odradek.controller.store.payloads.broker import Endpoint, SecurityProtocol
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID, TopicPartition

# From these versions on, partitions are grouped by topic.
LEADER_AND_ISR_GROUPED_SINCE = 2
UPDATE_METADATA_GROUPED_SINCE = 5
STOP_REPLICA_GROUPED_SINCE = 1
#: From this version on, each partition has its own flag for deletion.
STOP_REPLICA_STATES_SINCE = 3

LiveBroker = UpdateMetadataRequest.LiveBroker
StopReplicaPartitionState = StopReplicaRequest.TopicState.PartitionState


@dataclass(frozen=True, slots=True)
class StopReplicaPartition:
    """A replica that a broker must stop, and whether it must delete it."""

    leader_epoch: int
    delete_partition: bool


class BrokerRequest(NamedTuple):
    """A request, its version and the broker that receives it."""

    broker_id: int
    request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    version: int


class ControlRequestBuilder:
    """``inter_broker_listener`` is the listener that brokers use to connect to each other."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        controller_id: int,
        versions: RequestVersions,
        inter_broker_listener: str,
    ) -> None:
        self._context = context
        self._controller_id = controller_id
        self._versions = versions
        self._inter_broker_listener = inter_broker_listener

    # LeaderAndIsr

    def leader_and_isr_requests(
        self, partitions_by_broker: Mapping[int, Mapping[TopicPartition, bool]]
    ) -> Iterator[BrokerRequest]:
        """``partitions_by_broker`` says for each partition whether the broker's replica is new."""
        version = self._versions.leader_and_isr
        build_state = cache(self._leader_and_isr_partition_state)
        for broker, partitions in partitions_by_broker.items():
            known = [
                partition
                for partition in partitions
                if partition in self._context.partition_leadership_info
            ]
            if not known:
                continue
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker].epoch,
                live_leaders=self._live_leaders(known),
            )
            if version >= LEADER_AND_ISR_GROUPED_SINCE:
                request.topic_states = [
                    LeaderAndIsrRequest.TopicState(
                        topic_name=topic,
                        topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                        partition_states=[
                            build_state(partition, partitions[partition])
                            for partition in group_partitions
                        ],
                    )
                    for topic, group_partitions in _group_by_topic(known).items()
                ]
            else:
                request.ungrouped_partition_states = [
                    build_state(partition, partitions[partition]) for partition in known
                ]
            yield BrokerRequest(broker, request, version)

    def _leader_and_isr_partition_state(
        self, partition: TopicPartition, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        leadership = self._context.partition_leadership_info[partition]
        assignment = self._context.assignment(partition)
        return LeaderAndIsrPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            partition_epoch=leadership.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding_replicas),
            removing_replicas=list(assignment.removing_replicas),
            is_new=is_new,
            leader_recovery_state=int(leadership.is_recovering),
        )

    def _live_leaders(
        self, partitions: Iterable[TopicPartition]
    ) -> list[LeaderAndIsrRequest.LiveLeader]:
        leaders = {self._context.partition_leadership_info[each].leader for each in partitions}
        brokers = [each for each in self._context.brokers.values() if each.id in leaders]
        return [
            LeaderAndIsrRequest.LiveLeader(
                broker_id=each.id, host_name=endpoint.host, port=endpoint.port
            )
            for each in brokers
            if (
                endpoint := _find_endpoint(
                    each, lambda endpoint: endpoint.listener == self._inter_broker_listener
                )
            )
        ]

    # UpdateMetadata

    def update_metadata_requests(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> Iterator[BrokerRequest]:
        version = self._versions.update_metadata
        known = [each for each in partitions if self._leader_and_isr_to_send(each) is not None]
        partitions_by_topic = (
            _group_by_topic(known) if version >= UPDATE_METADATA_GROUPED_SINCE else {}
        )
        ungrouped_partitions = known if version < UPDATE_METADATA_GROUPED_SINCE else []
        topic_states = [
            UpdateMetadataRequest.TopicState(
                topic_name=topic,
                topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                partition_states=[
                    self._update_metadata_partition_state(each) for each in group_partitions
                ],
            )
            for topic, group_partitions in partitions_by_topic.items()
        ]
        ungrouped_states = [
            self._update_metadata_partition_state(each) for each in ungrouped_partitions
        ]
        live_brokers = [_live_broker(each, version) for each in self._context.brokers.values()]
        for broker in broker_ids:
            request = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker].epoch,
                ungrouped_partition_states=ungrouped_states,
                topic_states=topic_states,
                live_brokers=live_brokers,
            )
            yield BrokerRequest(broker, request, version)

    def _update_metadata_partition_state(
        self, partition: TopicPartition
    ) -> UpdateMetadataPartitionState:
        leadership = self._leader_and_isr_to_send(partition)
        assert leadership is not None, partition
        replicas = self._context.assignment(partition).replicas
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[
                each for each in replicas if not self._context.is_replica_online(each, partition)
            ],
        )

    def _leader_and_isr_to_send(
        self, partition: TopicPartition
    ) -> LeaderIsrAndControllerEpoch | None:
        """A topic marked for deletion has LEADER_DURING_DELETE, even if its ISR is unknown."""
        leadership = self._context.partition_leadership_info.get(partition)
        if partition.topic not in self._context.topics_to_be_deleted:
            return leadership
        return LeaderIsrAndControllerEpoch(
            leader=LEADER_DURING_DELETE,
            leader_epoch=0,
            isr=() if leadership is None else leadership.isr,
            controller_epoch=leadership.controller_epoch if leadership else self._context.epoch,
            partition_epoch=0,
        )

    # StopReplica

    def stop_replica_requests(
        self, partitions_by_broker: Mapping[int, Mapping[TopicPartition, StopReplicaPartition]]
    ) -> Iterator[BrokerRequest]:
        version = self._versions.stop_replica
        for broker, partitions in partitions_by_broker.items():
            if version >= STOP_REPLICA_STATES_SINCE:
                request = self._stop_replica_request(broker)
                request.topic_states = _stop_replica_topic_states(partitions)
                yield BrokerRequest(broker, request, version)
                continue
            for delete_partition in (True, False):
                group = [
                    each
                    for each, stop in partitions.items()
                    if stop.delete_partition is delete_partition
                ]
                if group:
                    request = self._stop_replica_request(broker)
                    request.delete_partitions = delete_partition
                    _set_stopped_partitions(request, group, version)
                    yield BrokerRequest(broker, request, version)

    def _stop_replica_request(self, broker_id: int) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
        )


def deletion_error_codes(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, int]:
    """The error code of every partition that the request deletes.

    An error of the whole request applies to all partitions.  A partition that the response does not
    contain gets UNKNOWN_SERVER_ERROR.
    """
    codes = {
        TopicPartition(each.topic_name, each.partition_index): each.error_code
        for each in response.partition_errors
    }
    return {
        partition: response.error_code or codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR.code)
        for partition in _partitions_to_delete(request)
    }


def _partitions_to_delete(request: StopReplicaRequest) -> Iterator[TopicPartition]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                yield TopicPartition(topic.topic_name, state.partition_index)
    if request.delete_partitions:
        for each in request.ungrouped_partitions:
            yield TopicPartition(each.topic_name, each.partition_index)
        for group in request.topics:
            yield from (
                TopicPartition(group.name, partition_index)
                for partition_index in group.partition_indexes
            )


def _stop_replica_topic_states(
    stop_replica_partitions: Mapping[TopicPartition, StopReplicaPartition],
) -> list[StopReplicaRequest.TopicState]:
    return [
        StopReplicaRequest.TopicState(
            topic_name=topic,
            partition_states=[
                StopReplicaPartitionState(
                    partition_index=each.partition,
                    leader_epoch=stop_replica_partitions[each].leader_epoch,
                    delete_partition=stop_replica_partitions[each].delete_partition,
                )
                for each in group
            ],
        )
        for topic, group in _group_by_topic(stop_replica_partitions).items()
    ]


def _set_stopped_partitions(
    request: StopReplicaRequest, partitions: Iterable[TopicPartition], version: int
) -> None:
    if version >= STOP_REPLICA_GROUPED_SINCE:
        request.topics = [
            StopReplicaRequest.TopicV1(
                name=topic, partition_indexes=[each.partition for each in group]
            )
            for topic, group in _group_by_topic(partitions).items()
        ]
    else:
        request.ungrouped_partitions = [
            StopReplicaRequest.PartitionV0(topic_name=each.topic, partition_index=each.partition)
            for each in partitions
        ]


def _live_broker(broker: Broker, version: int) -> UpdateMetadataRequest.LiveBroker:
    """Version 0 has a single address, which must be a PLAINTEXT endpoint."""
    if version == 0:
        endpoint = _find_endpoint(
            broker, lambda endpoint: endpoint.security_protocol is SecurityProtocol.PLAINTEXT
        )
        host, port = (endpoint.host, endpoint.port) if endpoint else ("", -1)
        return LiveBroker(id=broker.id, v0_host=host, v0_port=port)
    return LiveBroker(
        id=broker.id,
        endpoints=[
            LiveBroker.Endpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=endpoint.security_protocol.value,
            )
            for endpoint in broker.registration.endpoints
        ],
        rack=broker.registration.rack,
    )


def _find_endpoint(broker: Broker, predicate: Callable[[Endpoint], bool]) -> Endpoint | None:
    return next(
        (endpoint for endpoint in broker.registration.endpoints if predicate(endpoint)), None
    )


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        groups[partition.topic].append(partition)
    return dict(groups)
