"""AlterPartition as it travels: by topic names up to version 1, by topic ids after it.

The versions also differ in how the in-sync replicas are listed, and in whether a leader knows that
a replica can be ineligible.

Owner: none; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.controller.context import Context
from odradek.controller.isr import Altered, Proposal
from odradek.controller.leadership import Leadership
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import ZERO_UUID, TopicPartition

BY_TOPIC_ID = 2
WITH_EPOCHS = 3

_Partition = AlterPartitionRequest.Topic.Partition
_Answer = AlterPartitionResponse.Topic.Partition


def proposals(
    request: AlterPartitionRequest, version: int, context: Context
) -> dict[TopicPartition, Proposal]:
    """Of topics that are known."""
    found: dict[TopicPartition, Proposal] = {}
    for topic in request.topics:
        name = _name(topic, version, context)
        if name is not None:
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                found[partition] = _proposal(request.broker_id, each, version)
    return found


def response(
    request: AlterPartitionRequest, version: int, altered: Altered, context: Context
) -> AlterPartitionResponse:
    topics = [
        AlterPartitionResponse.Topic(
            topic_id=topic.topic_id,
            partitions=[_unknown_topic(each.partition_index) for each in topic.partitions],
        )
        for topic in request.topics
        if _name(topic, version, context) is None
    ]
    for name, partitions in _by_topic(altered).items():
        by_id = version >= BY_TOPIC_ID
        topics.append(
            AlterPartitionResponse.Topic(
                topic_name="" if by_id else name,
                topic_id=context.topic_ids.get(name, ZERO_UUID) if by_id else ZERO_UUID,
                partitions=[_answer(number, outcome) for number, outcome in partitions.items()],
            )
        )
    return AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=topics)


def _name(topic: AlterPartitionRequest.Topic, version: int, context: Context) -> str | None:
    return context.topic_names.get(topic.topic_id) if version >= BY_TOPIC_ID else topic.topic_name


def _proposal(leader: int, asked: _Partition, version: int) -> Proposal:
    with_epochs = {each.broker_id: each.broker_epoch for each in asked.new_isr_with_epochs}
    return Proposal(
        leader=leader,
        leader_epoch=asked.leader_epoch,
        isr=tuple(with_epochs if version >= WITH_EPOCHS else asked.new_isr),
        partition_epoch=asked.partition_epoch,
        is_recovering=asked.leader_recovery_state == 1,
        knows_ineligible=version >= BY_TOPIC_ID,
        broker_epochs=with_epochs,
    )


def _answer(number: int, outcome: Leadership | KafkaError) -> _Answer:
    if isinstance(outcome, KafkaError):
        return _failed(number, code_of(outcome))
    return _Answer(
        partition_index=number,
        error_code=ErrorCode.NONE.code,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=int(outcome.is_recovering),
        partition_epoch=outcome.partition_epoch,
    )


def _unknown_topic(number: int) -> _Answer:
    return _failed(number, ErrorCode.UNKNOWN_TOPIC_ID.code)


def _failed(number: int, code: int) -> _Answer:
    return _Answer(
        partition_index=number,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def _by_topic(altered: Altered) -> Mapping[str, dict[int, Leadership | KafkaError]]:
    groups: dict[str, dict[int, Leadership | KafkaError]] = {}
    for partition, outcome in altered.items():
        groups.setdefault(partition.topic, {})[partition.partition] = outcome
    return groups
