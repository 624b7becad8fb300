"""Which of the partitions whose logs lie here are this broker's, as the tree has it?

    own       to be led, here or elsewhere, as soon as the controller has seen to it
    strays    of no topic that there is, or assigned to others: as Kafka on ZooKeeper, we keep their
              logs and touch nothing
    lost      no log lies here, though this broker was the last to be in sync, and others have
              replicas: a disk was replaced, or a directory emptied.  Where no log lies at all, to
              have been in sync is enough: all may have stopped at once, and this one be the first
              to come back

A topic that is being deleted is none of them: its logs go when the controller says so.

What is lost must not be led here.  Kafka on ZooKeeper leads it from an empty log, and the others,
who may have all that was ever acknowledged, cut theirs to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition


class AssignedPartitions(NamedTuple):
    """The partitions of each topic that are ours, and those that are nobody's."""

    assigned: dict[str, set[int]]
    strays: list[TopicPartition]


async def find_assigned_partitions(
    store: MetadataStore, partitions: Iterable[TopicPartition], *, broker_id: int
) -> AssignedPartitions:
    """StoreError if the tree cannot be read."""
    by_topic: dict[str, set[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, set()).add(number)
    reader = MetadataReader(store)
    deleting = await reader.get_topic_deletions()
    topics = await reader.get_topic_assignments(by_topic)
    result = AssignedPartitions({}, [])
    for topic in sorted(by_topic.keys() - deleting):
        assigned = topics[topic].partitions if topic in topics else {}
        ours = {
            number for number, assignment in assigned.items() if broker_id in assignment.replicas
        }
        if by_topic[topic] & ours:
            result.assigned[topic] = by_topic[topic] & ours
        result.strays.extend(
            TopicPartition(topic, number) for number in sorted(by_topic[topic] - ours)
        )
    return result


async def find_lost_partitions(
    store: MetadataStore, hosted_partitions: Collection[TopicPartition], *, broker_id: int
) -> set[TopicPartition]:
    """To be asked before this broker is registered.  StoreError if the tree cannot be read."""
    reader = MetadataReader(store)
    topics = await reader.get_topic_assignments(
        await reader.get_topic_names() - await reader.get_topic_deletions()
    )
    missing = [
        partition
        for topic, topic_assignment in topics.items()
        for number, assignment in topic_assignment.partitions.items()
        if broker_id in assignment.replicas
        and len(assignment.replicas) > 1
        and (partition := TopicPartition(topic, number)) not in hosted_partitions
    ]
    leaderships = await reader.get_topic_partition_states(missing)
    return {
        partition
        for partition, state in leaderships.items()
        if state.isr == (broker_id,) or (not hosted_partitions and broker_id in state.isr)
    }
