"""AlterReplicaLogDirs: move replicas of this broker to other log directories.

The answer says that a move has begun, not that it is done.  A partition that has no log here is
REPLICA_NOT_AVAILABLE, whatever else knows of it, and is remembered: its log will be made there.
"""

from __future__ import annotations

from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.turns import Turn
from odradek.protocol.api.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from odradek.protocol.errors import KafkaError, NotLeader, ReplicaNotAvailable, code_of
from odradek.protocol.types import TopicPartition

Topic = AlterReplicaLogDirsResponse.Topic
Line = Topic.Partition


class Moves(Protocol):
    """Who moves logs."""

    async def move(self, partition: TopicPartition, path: str, /) -> None: ...


async def handle(
    moves: Moves, call: Call[AlterReplicaLogDirsRequest]
) -> AlterReplicaLogDirsResponse:
    turn, failures = Turn(), {}
    for partition, path in _paths_in(call.request).items():
        failures[partition] = await _failure_of(moves, partition, path)
        if turn.is_over:
            await turn.next()
    return _response(failures)


def _paths_in(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Of a partition that is named twice, the last."""
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


async def _failure_of(moves: Moves, partition: TopicPartition, path: str) -> KafkaError | None:
    try:
        await moves.move(partition, path)
    except NotLeader:
        return ReplicaNotAvailable()
    except KafkaError as failure:
        return failure
    return None


def _response(failures: dict[TopicPartition, KafkaError | None]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, Topic] = {}
    for (name, index), failure in failures.items():
        topic = topics.setdefault(name, Topic(topic_name=name, partitions=[]))
        topic.partitions.append(Line(partition_index=index, error_code=code_of(failure)))
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=list(topics.values()))


def refused(
    call: Call[AlterReplicaLogDirsRequest], failure: KafkaError
) -> AlterReplicaLogDirsResponse:
    """All of it, for one reason."""
    return _response(dict.fromkeys(_paths_in(call.request), failure))
