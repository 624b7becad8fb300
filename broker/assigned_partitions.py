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

from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition


class Hosted(NamedTuple):
    """The partitions of each topic that are ours, and those that are nobody's."""

    own: dict[str, set[int]]
    strays: list[TopicPartition]


async def hosted(
    store: MetadataStore, partitions: Iterable[TopicPartition], *, broker_id: int
) -> Hosted:
    """StoreError if the tree cannot be read."""
    by_topic: dict[str, set[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, set()).add(number)
    tree = MetadataReads(store)
    going = await tree.topics_to_delete()
    topics = await tree.topics(by_topic)
    found = Hosted({}, [])
    for topic in sorted(by_topic.keys() - going):
        assigned = topics[topic].partitions if topic in topics else {}
        ours = {number for number, at in assigned.items() if broker_id in at.replicas}
        if by_topic[topic] & ours:
            found.own[topic] = by_topic[topic] & ours
        found.strays.extend(
            TopicPartition(topic, number) for number in sorted(by_topic[topic] - ours)
        )
    return found


async def lost(
    store: MetadataStore, logs: Collection[TopicPartition], *, broker_id: int
) -> set[TopicPartition]:
    """To be asked before this broker is registered.  StoreError if the tree cannot be read."""
    tree = MetadataReads(store)
    topics = await tree.topics(await tree.topic_names() - await tree.topics_to_delete())
    missing = [
        where
        for topic, found in topics.items()
        for number, at in found.partitions.items()
        if broker_id in at.replicas
        and len(at.replicas) > 1
        and (where := TopicPartition(topic, number)) not in logs
    ]
    leaderships = await tree.leaderships(missing)
    return {
        where
        for where, found in leaderships.items()
        if found.isr == (broker_id,) or (not logs and broker_id in found.isr)
    }
