"""Partitions on the move: what is under way, begun, cancelled, and where each of a plan stands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from odradek.broker.cli.operated import OperatedCluster, by_topic, check, told
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.directories import copies
from odradek.broker.cli.reassign.plans import At, Directories, ReadPlan

#: What a broker is given besides, to do it in.
SPARE_MS = 1000


class UnderWay(NamedTuple):
    """Until the end, all that were replicas and all that will be are."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.adding)


class Standing(Enum):
    """Of a partition, against what a plan wants of it."""

    MOVED = "moved"
    MOVING = "moving"
    ELSEWHERE = "elsewhere"


async def under_way(cluster: OperatedCluster) -> dict[Place, UnderWay]:
    """All there are, as the controller knows them."""
    from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(timeout_ms=_timeout_ms(cluster))
    answer = await cluster.ask_controller(request, version=0, codes=lambda each: [each.error_code])
    check(answer.error_code, answer.error_message, of="reassignments")
    return {
        Place(topic.name, each.partition_index): UnderWay(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


async def alter(
    cluster: OperatedCluster, targets: Mapping[Place, tuple[int, ...] | None]
) -> dict[Place, str]:
    """Begin moves there, or cancel them where it is None; why not, of those that are refused."""
    from odradek.protocol.api.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
    )

    asked = AlterPartitionReassignmentsRequest.Topic
    topics = [
        asked(
            name=topic,
            partitions=[
                asked.Partition(partition_index=number, replicas=_listed(targets, topic, number))
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(targets).items()
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=_timeout_ms(cluster), topics=topics)
    answer = await cluster.ask_controller(request, version=0, codes=_codes)
    check(answer.error_code, answer.error_message, of="reassignments")
    return {
        Place(topic.name, each.partition_index): told(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


async def standings(cluster: OperatedCluster, plan: ReadPlan) -> dict[Place, Standing]:
    """Of each partition of a plan."""
    moving = await under_way(cluster)
    partitions = (await cluster.picture(by_topic(plan.replicas))).partitions
    found = {}
    for place, replicas in plan.replicas.items():
        if place in moving:
            found[place] = Standing.MOVING
        else:
            now = partitions[place].replicas if place in partitions else ()
            found[place] = Standing.MOVED if now == replicas else Standing.ELSEWHERE
    for at, standing in (await _in_directories(cluster, plan.directories)).items():
        if found[at.place] is Standing.MOVED:
            found[at.place] = standing
    return found


async def _in_directories(cluster: OperatedCluster, directories: Directories) -> dict[At, Standing]:
    """Of replicas that are not in the directory where they shall be."""
    found = {}
    for at, of_one in (await copies(cluster, directories)).items():
        wanted = [each for each in of_one if each.directory == directories[at]]
        if not wanted:
            found[at] = Standing.ELSEWHERE
        elif any(each.is_future for each in wanted):
            found[at] = Standing.MOVING
    return found


def _listed(
    targets: Mapping[Place, tuple[int, ...] | None], topic: str, number: int
) -> list[int] | None:
    target = targets[Place(topic, number)]
    return None if target is None else list(target)


def _codes(answer: Any) -> list[int]:
    partitions = [each for topic in answer.responses for each in topic.partitions]
    return [answer.error_code, *(each.error_code for each in partitions)]


def _timeout_ms(cluster: OperatedCluster) -> int:
    return max(1, int(cluster.timeout_s * 1000) - SPARE_MS)
