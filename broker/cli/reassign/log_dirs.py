"""In which log directories of their brokers replicas are, and shall be.

A broker that has no replica yet remembers the directory, and makes it there.  One that has it in
another directory copies it; until that has ended it has two copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from odradek.broker.cli.direct import NoAnswer
from odradek.broker.cli.operated import OperatedCluster, by_topic, error_name, told
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.plans import At, Directories

VERSION = 1
#: What a broker says of a replica that it will have, most likely.
REMEMBERED = "REPLICA_NOT_AVAILABLE"


class Copy(NamedTuple):
    """Of a replica: the one that is used, or one that shall replace it."""

    directory: str
    size_bytes: int
    is_future: bool


async def choose(cluster: OperatedCluster, directories: Directories) -> dict[At, str]:
    """Have replicas be there; why not, of those that cannot be."""
    from odradek.protocol.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest

    refused = {}
    for broker in sorted({at.broker for at in directories}):
        paths: defaultdict[str, list[Place]] = defaultdict(list)
        for at, path in directories.items():
            if at.broker == broker:
                paths[path].append(at.place)
        asked = AlterReplicaLogDirsRequest.Directory
        dirs = [
            asked(
                path=path,
                topics=[
                    asked.Topic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic(places).items()
                ],
            )
            for path, places in paths.items()
        ]
        request = AlterReplicaLogDirsRequest(dirs=dirs)
        for topic in (await cluster.ask_broker(broker, request, version=VERSION)).results:
            for each in topic.partitions:
                if each.error_code and error_name(each.error_code) != REMEMBERED:
                    at = At(Place(topic.topic_name, each.partition_index), broker)
                    refused[at] = told(each.error_code, None)
    return refused


async def copies(cluster: OperatedCluster, replicas: Iterable[At]) -> dict[At, list[Copy]]:
    """Of those that are there; brokers that do not answer have none."""
    from asyncio import gather

    places: defaultdict[int, list[Place]] = defaultdict(list)
    for at in replicas:
        places[at.broker].append(at.place)
    alive = (await cluster.picture([])).brokers
    asked = [_copies(cluster, each, places[each]) for each in places.keys() & alive.keys()]
    return {at: of_one for found in await gather(*asked) for at, of_one in found.items()}


async def _copies(
    cluster: OperatedCluster, broker: int, places: Iterable[Place]
) -> dict[At, list[Copy]]:
    from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest

    topics = [
        DescribeLogDirsRequest.Topic(topic=topic, partitions=numbers)
        for topic, numbers in by_topic(places).items()
    ]
    request = DescribeLogDirsRequest(topics=topics)
    found: defaultdict[At, list[Copy]] = defaultdict(list)
    try:
        answer = await cluster.ask_broker(broker, request, version=VERSION)
    except NoAnswer:
        return {}  # it went just now
    for directory in answer.results:
        for topic in directory.topics:
            for each in topic.partitions:
                at = At(Place(topic.name, each.partition_index), broker)
                copy = Copy(directory.log_dir, each.partition_size, each.is_future_key)
                found[at].append(copy)
    return dict(found)
