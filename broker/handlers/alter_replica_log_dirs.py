"""AlterReplicaLogDirs: move replicas of this broker to other log directories.

The response says that a move has started, not that it is complete.  A partition without a log on
this broker gets REPLICA_NOT_AVAILABLE, even if the cluster knows the partition.  The broker
remembers the directory and creates the log there later.
"""

from __future__ import annotations

from typing import Protocol

from odradek.broker.request import Request
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.api.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from odradek.protocol.errors import KafkaError, NotLeaderOrFollower, ReplicaNotAvailable, code_of
from odradek.protocol.types import TopicPartition

Topic = AlterReplicaLogDirsResponse.Topic
PartitionResponse = Topic.Partition


class AlterLogDirsManager(Protocol):
    """Starts moves of logs between directories.  Kafka: ReplicaAlterLogDirsManager."""

    async def move(self, partition: TopicPartition, path: str, /) -> None: ...


async def handle(
    alter_log_dirs_manager: AlterLogDirsManager, request: Request[AlterReplicaLogDirsRequest]
) -> AlterReplicaLogDirsResponse:
    time_slice, errors = TimeSlice(), {}
    for partition, path in _requested_log_dirs(request.body).items():
        errors[partition] = await _alter_log_dir(alter_log_dirs_manager, partition, path)
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return _build_response(errors)


def _requested_log_dirs(body: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the target directory of each partition; the last one counts if there are several."""
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in body.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


async def _alter_log_dir(
    alter_log_dirs_manager: AlterLogDirsManager, partition: TopicPartition, path: str
) -> KafkaError | None:
    try:
        await alter_log_dirs_manager.move(partition, path)
    except NotLeaderOrFollower:
        return ReplicaNotAvailable()
    except KafkaError as error:
        return error
    return None


def _build_response(errors: dict[TopicPartition, KafkaError | None]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, Topic] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, Topic(topic_name=name, partitions=[]))
        topic.partitions.append(PartitionResponse(partition_index=index, error_code=code_of(error)))
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=list(topics.values()))


def error_response(
    request: Request[AlterReplicaLogDirsRequest], error: KafkaError
) -> AlterReplicaLogDirsResponse:
    return _build_response(dict.fromkeys(_requested_log_dirs(request.body), error))
