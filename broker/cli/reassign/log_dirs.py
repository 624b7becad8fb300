"""Describes and alters the log directories of replicas.

A broker without the replica remembers the directory and creates the replica there later.  A broker
with the replica in another directory copies it, and has two copies until the copy has caught up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from odradek.broker.cli.broker_connections import RetriableError
from odradek.broker.cli.cluster_client import (
    ClusterClient,
    error_name,
    format_error,
    group_by_topic,
)
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import LogDirs, TopicPartitionReplica

VERSION = 1
#: The error of a broker for a replica that it does not have yet.
REPLICA_NOT_CREATED_YET = "REPLICA_NOT_AVAILABLE"


class ReplicaInfo(NamedTuple):
    """The current replica, or the future replica that will replace it."""

    log_dir: str
    size_bytes: int
    is_future: bool


async def alter_replica_log_dirs(
    cluster: ClusterClient, log_dirs: LogDirs
) -> dict[TopicPartitionReplica, str]:
    """Request the log directories; return an error message for each replica that failed."""
    from odradek.protocol.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest

    errors = {}
    for broker in sorted({at.broker_id for at in log_dirs}):
        paths: defaultdict[str, list[TopicAndPartition]] = defaultdict(list)
        for at, path in log_dirs.items():
            if at.broker_id == broker:
                paths[path].append(at.topic_partition)
        directory_entry = AlterReplicaLogDirsRequest.Directory
        dirs = [
            directory_entry(
                path=path,
                topics=[
                    directory_entry.Topic(name=topic, partitions=numbers)
                    for topic, numbers in group_by_topic(topic_partitions).items()
                ],
            )
            for path, topic_partitions in paths.items()
        ]
        request = AlterReplicaLogDirsRequest(dirs=dirs)
        for topic in (await cluster.send_to_broker(broker, request, version=VERSION)).results:
            for each in topic.partitions:
                if each.error_code and error_name(each.error_code) != REPLICA_NOT_CREATED_YET:
                    at = TopicPartitionReplica(
                        TopicAndPartition(topic.topic_name, each.partition_index), broker
                    )
                    errors[at] = format_error(each.error_code, None)
    return errors


async def describe_replicas(
    cluster: ClusterClient, replicas: Iterable[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, list[ReplicaInfo]]:
    """Return the existing replicas; brokers that do not respond are omitted."""
    from asyncio import gather

    by_broker: defaultdict[int, list[TopicAndPartition]] = defaultdict(list)
    for at in replicas:
        by_broker[at.broker_id].append(at.topic_partition)
    alive = (await cluster.fetch_metadata([])).brokers
    requests = [
        _describe_broker_replicas(cluster, broker, by_broker[broker])
        for broker in by_broker.keys() & alive.keys()
    ]
    return {at: infos for result in await gather(*requests) for at, infos in result.items()}


async def _describe_broker_replicas(
    cluster: ClusterClient, broker_id: int, topic_partitions: Iterable[TopicAndPartition]
) -> dict[TopicPartitionReplica, list[ReplicaInfo]]:
    from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest

    topics = [
        DescribeLogDirsRequest.Topic(topic=topic, partitions=numbers)
        for topic, numbers in group_by_topic(topic_partitions).items()
    ]
    request = DescribeLogDirsRequest(topics=topics)
    replicas: defaultdict[TopicPartitionReplica, list[ReplicaInfo]] = defaultdict(list)
    try:
        response = await cluster.send_to_broker(broker_id, request, version=VERSION)
    except RetriableError:
        return {}  # the broker has gone offline meanwhile
    for directory in response.results:
        for topic in directory.topics:
            for each in topic.partitions:
                at = TopicPartitionReplica(
                    TopicAndPartition(topic.name, each.partition_index), broker_id
                )
                info = ReplicaInfo(directory.log_dir, each.partition_size, each.is_future_key)
                replicas[at].append(info)
    return dict(replicas)
