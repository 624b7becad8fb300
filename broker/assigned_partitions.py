"""Compares the logs on this broker with the replica assignments in the metadata store.

    assigned  the partition is assigned to this broker and has a leader, here or on another broker,
              as soon as the controller has elected one
    strays    the topic does not exist, or the partition is assigned to other brokers only.  As
              Kafka on ZooKeeper does, the broker keeps their logs and does not touch them
    lost      the partition has no log here, other brokers have replicas of it, and this broker was
              the last member of its ISR: a disk was replaced or a directory was emptied.  If this
              broker has no logs at all, membership in the ISR is enough: all brokers may have
              stopped at the same time, and this one may be the first to return

Topics that are being deleted are in none of these sets: the controller requests the deletion of
their logs.

This broker must not lead a lost partition.  Kafka on ZooKeeper leads it from an empty log, and the
followers, which may have all acknowledged records, truncate their logs to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition


class AssignedPartitions(NamedTuple):
    """The assigned partitions by topic, and the stray partitions."""

    assigned: dict[str, set[int]]
    strays: list[TopicPartition]


async def find_assigned_partitions(
    store: MetadataStore, partitions: Iterable[TopicPartition], *, broker_id: int
) -> AssignedPartitions:
    """Sort the given partitions into assigned and stray ones.

    Raises StoreError if the store cannot be read.
    """
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
    """Call this before the broker is registered.  Raises StoreError if the store cannot be read."""
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
