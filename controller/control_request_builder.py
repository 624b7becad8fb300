"""LeaderAndIsr, UpdateMetadata and StopReplica as they go out, made from the controller's picture.

In the versions that all brokers of the cluster understand: the oldest have a flat list of
partitions, later ones group them by topic, and before StopReplica 3 a request was all about
deleting or not at all.  What is the same for many brokers is made once and shared: requests are
read, never changed.

Owner: the event loop; they read the context and change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from odradek.controller.context import Broker, Context
from odradek.controller.leadership import LEADER_DURING_DELETE, Leadership
from odradek.controller.request_versions import RequestVersions
from odradek.controller.store.payloads.broker import Endpoint, SecurityProtocol
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID, TopicPartition

# From these versions on partitions are grouped by topic.
GROUPED_LEADER_AND_ISR = 2
GROUPED_UPDATE_METADATA = 5
GROUPED_STOP_REPLICA = 1
#: From this one on each partition says for itself whether it is to be deleted.
STOP_REPLICA_WITH_STATES = 3

LiveBroker = UpdateMetadataRequest.LiveBroker
StopState = StopReplicaRequest.TopicState.PartitionState


@dataclass(frozen=True, slots=True)
class Stop:
    """That a replica is to be let go of."""

    leader_epoch: int
    deletes: bool


class Addressed(NamedTuple):
    """A request and whom it is for."""

    broker: int
    request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    version: int


class ControlRequests:
    """Requests of one controller; ``listener`` is where its brokers find each other."""

    def __init__(
        self, context: Context, *, controller_id: int, versions: RequestVersions, listener: str
    ) -> None:
        self._context = context
        self._controller_id = controller_id
        self._versions = versions
        self._listener = listener

    # LeaderAndIsr

    def leader_and_isr(
        self, told: Mapping[int, Mapping[TopicPartition, bool]]
    ) -> Iterator[Addressed]:
        """``told`` says of each broker which partitions, and whether its replica is new."""
        version = self._versions.leader_and_isr
        state = cache(self._leader_and_isr_state)
        for broker, partitions in told.items():
            led = [each for each in partitions if each in self._context.leaderships]
            if not led:
                continue
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker].epoch,
                live_leaders=self._live_leaders(led),
            )
            if version >= GROUPED_LEADER_AND_ISR:
                request.topic_states = [
                    LeaderAndIsrRequest.TopicState(
                        topic_name=topic,
                        topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                        partition_states=[state(each, partitions[each]) for each in group],
                    )
                    for topic, group in _by_topic(led).items()
                ]
            else:
                request.ungrouped_partition_states = [state(each, partitions[each]) for each in led]
            yield Addressed(broker, request, version)

    def _leader_and_isr_state(
        self, partition: TopicPartition, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        leadership = self._context.leaderships[partition]
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
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=int(leadership.is_recovering),
        )

    def _live_leaders(
        self, partitions: Iterable[TopicPartition]
    ) -> list[LeaderAndIsrRequest.LiveLeader]:
        leaders = {self._context.leaderships[each].leader for each in partitions}
        brokers = [each for each in self._context.brokers.values() if each.id in leaders]
        return [
            LeaderAndIsrRequest.LiveLeader(broker_id=each.id, host_name=at.host, port=at.port)
            for each in brokers
            if (at := _endpoint(each, lambda at: at.listener == self._listener))
        ]

    # UpdateMetadata

    def update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> Iterator[Addressed]:
        version = self._versions.update_metadata
        told = [each for each in partitions if self._told_of(each) is not None]
        groups = _by_topic(told) if version >= GROUPED_UPDATE_METADATA else {}
        flat = told if version < GROUPED_UPDATE_METADATA else []
        topic_states = [
            UpdateMetadataRequest.TopicState(
                topic_name=topic,
                topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                partition_states=[self._metadata_state(each) for each in group],
            )
            for topic, group in groups.items()
        ]
        ungrouped = [self._metadata_state(each) for each in flat]
        live_brokers = [_live_broker(each, version) for each in self._context.brokers.values()]
        for broker in brokers:
            request = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker].epoch,
                ungrouped_partition_states=ungrouped,
                topic_states=topic_states,
                live_brokers=live_brokers,
            )
            yield Addressed(broker, request, version)

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState:
        leadership = self._told_of(partition)
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
                each for each in replicas if not self._context.is_online(each, partition)
            ],
        )

    def _told_of(self, partition: TopicPartition) -> Leadership | None:
        """Of a topic that is going, that it is, even if nothing else is known of it any more."""
        leadership = self._context.leaderships.get(partition)
        if partition.topic not in self._context.to_delete:
            return leadership
        return Leadership(
            leader=LEADER_DURING_DELETE,
            leader_epoch=0,
            isr=() if leadership is None else leadership.isr,
            controller_epoch=leadership.controller_epoch if leadership else self._context.epoch,
            partition_epoch=0,
        )

    # StopReplica

    def stop_replica(
        self, stops: Mapping[int, Mapping[TopicPartition, Stop]]
    ) -> Iterator[Addressed]:
        version = self._versions.stop_replica
        for broker, partitions in stops.items():
            if version >= STOP_REPLICA_WITH_STATES:
                request = self._stop_request(broker)
                request.topic_states = _stop_states(partitions)
                yield Addressed(broker, request, version)
                continue
            for deletes in (True, False):
                group = [each for each, stop in partitions.items() if stop.deletes is deletes]
                if group:
                    request = self._stop_request(broker)
                    request.delete_partitions = deletes
                    _list_stopped(request, group, version)
                    yield Addressed(broker, request, version)

    def _stop_request(self, broker: int) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
        )


def deletions_answered(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, int]:
    """The error code for every partition that was to be deleted.

    One for all, if the request was refused; of what the answer does not name, nothing is known.
    """
    codes = {
        TopicPartition(each.topic_name, each.partition_index): each.error_code
        for each in response.partition_errors
    }
    return {
        partition: response.error_code or codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR.code)
        for partition in _to_be_deleted(request)
    }


def _to_be_deleted(request: StopReplicaRequest) -> Iterator[TopicPartition]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                yield TopicPartition(topic.topic_name, state.partition_index)
    if request.delete_partitions:
        for each in request.ungrouped_partitions:
            yield TopicPartition(each.topic_name, each.partition_index)
        for group in request.topics:
            yield from (TopicPartition(group.name, number) for number in group.partition_indexes)


def _stop_states(stops: Mapping[TopicPartition, Stop]) -> list[StopReplicaRequest.TopicState]:
    return [
        StopReplicaRequest.TopicState(
            topic_name=topic,
            partition_states=[
                StopState(
                    partition_index=each.partition,
                    leader_epoch=stops[each].leader_epoch,
                    delete_partition=stops[each].deletes,
                )
                for each in group
            ],
        )
        for topic, group in _by_topic(stops).items()
    ]


def _list_stopped(
    request: StopReplicaRequest, partitions: Iterable[TopicPartition], version: int
) -> None:
    if version >= GROUPED_STOP_REPLICA:
        request.topics = [
            StopReplicaRequest.TopicV1(
                name=topic, partition_indexes=[each.partition for each in group]
            )
            for topic, group in _by_topic(partitions).items()
        ]
    else:
        request.ungrouped_partitions = [
            StopReplicaRequest.PartitionV0(topic_name=each.topic, partition_index=each.partition)
            for each in partitions
        ]


def _live_broker(broker: Broker, version: int) -> UpdateMetadataRequest.LiveBroker:
    """The oldest version has one address, without encryption or authentication."""
    if version == 0:
        at = _endpoint(broker, lambda at: at.security_protocol is SecurityProtocol.PLAINTEXT)
        host, port = (at.host, at.port) if at else ("", -1)
        return LiveBroker(id=broker.id, v0_host=host, v0_port=port)
    return LiveBroker(
        id=broker.id,
        endpoints=[
            LiveBroker.Endpoint(
                port=at.port,
                host=at.host,
                listener=at.listener,
                security_protocol=at.security_protocol.value,
            )
            for at in broker.registration.endpoints
        ],
        rack=broker.registration.rack,
    )


def _endpoint(broker: Broker, is_meant: Callable[[Endpoint], bool]) -> Endpoint | None:
    return next((at for at in broker.registration.endpoints if is_meant(at)), None)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        groups[partition.topic].append(partition)
    return dict(groups)
