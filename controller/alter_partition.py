"""AlterPartition (API 56) by version: versions 0 and 1 use topic names, later ones topic ids.

Version 3 lists the ISR with broker epochs.  A leader knows INELIGIBLE_REPLICA from version 2 on.

Owner: none; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.controller.controller_context import ControllerContext
from odradek.controller.isr_changes import AlterPartitionResults, ProposedLeaderAndIsr
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import ZERO_UUID, TopicPartition

TOPIC_ID_SINCE = 2
ISR_EPOCHS_SINCE = 3

_PartitionRequest = AlterPartitionRequest.Topic.Partition
_PartitionResponse = AlterPartitionResponse.Topic.Partition


def parse_proposals(
    request: AlterPartitionRequest, version: int, context: ControllerContext
) -> dict[TopicPartition, ProposedLeaderAndIsr]:
    """Return the proposals of all partitions whose topic is known."""
    proposals: dict[TopicPartition, ProposedLeaderAndIsr] = {}
    for topic in request.topics:
        name = _topic_name(topic, version, context)
        if name is not None:
            for partition_request in topic.partitions:
                partition = TopicPartition(name, partition_request.partition_index)
                proposals[partition] = _parse_proposal(
                    request.broker_id, partition_request, version
                )
    return proposals


def build_response(
    request: AlterPartitionRequest,
    version: int,
    results: AlterPartitionResults,
    context: ControllerContext,
) -> AlterPartitionResponse:
    topics = [
        AlterPartitionResponse.Topic(
            topic_id=topic.topic_id,
            partitions=[_unknown_topic_response(each.partition_index) for each in topic.partitions],
        )
        for topic in request.topics
        if _topic_name(topic, version, context) is None
    ]
    for name, partitions in _group_by_topic(results).items():
        uses_topic_ids = version >= TOPIC_ID_SINCE
        topics.append(
            AlterPartitionResponse.Topic(
                topic_name="" if uses_topic_ids else name,
                topic_id=context.topic_ids.get(name, ZERO_UUID) if uses_topic_ids else ZERO_UUID,
                partitions=[
                    _partition_response(partition_index, result)
                    for partition_index, result in partitions.items()
                ],
            )
        )
    return AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=topics)


def _topic_name(
    topic: AlterPartitionRequest.Topic, version: int, context: ControllerContext
) -> str | None:
    return (
        context.topic_names.get(topic.topic_id) if version >= TOPIC_ID_SINCE else topic.topic_name
    )


def _parse_proposal(
    leader_id: int, partition_request: _PartitionRequest, version: int
) -> ProposedLeaderAndIsr:
    broker_epochs = {
        each.broker_id: each.broker_epoch for each in partition_request.new_isr_with_epochs
    }
    return ProposedLeaderAndIsr(
        leader=leader_id,
        leader_epoch=partition_request.leader_epoch,
        isr=tuple(broker_epochs if version >= ISR_EPOCHS_SINCE else partition_request.new_isr),
        partition_epoch=partition_request.partition_epoch,
        is_recovering=partition_request.leader_recovery_state == 1,
        supports_ineligible_replica=version >= TOPIC_ID_SINCE,
        broker_epochs=broker_epochs,
    )


def _partition_response(
    partition_index: int, result: LeaderIsrAndControllerEpoch | KafkaError
) -> _PartitionResponse:
    if isinstance(result, KafkaError):
        return _error_response(partition_index, code_of(result))
    return _PartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode.NONE.code,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=int(result.is_recovering),
        partition_epoch=result.partition_epoch,
    )


def _unknown_topic_response(partition_index: int) -> _PartitionResponse:
    return _error_response(partition_index, ErrorCode.UNKNOWN_TOPIC_ID.code)


def _error_response(partition_index: int, error_code: int) -> _PartitionResponse:
    return _PartitionResponse(
        partition_index=partition_index,
        error_code=error_code,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def _group_by_topic(
    results: AlterPartitionResults,
) -> Mapping[str, dict[int, LeaderIsrAndControllerEpoch | KafkaError]]:
    groups: dict[str, dict[int, LeaderIsrAndControllerEpoch | KafkaError]] = {}
    for partition, result in results.items():
        groups.setdefault(partition.topic, {})[partition.partition] = result
    return groups
