"""Topics come, grow and go in the tree: what is written there is what the controller acts on.

Whoever creates a topic or adds partitions to it writes the assignment and nothing else.  The
controller finds it, gives an id to a topic that has none, and brings the new partitions online.
Partitions that are added to a topic which is being deleted are taken out of its node again.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from odradek.controller.leader_election import Occasion
from odradek.controller.machinery import Machinery
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.tree_watches import TreeWatches
from odradek.protocol.types import TopicPartition, Uuid

log = logging.getLogger(__name__)


class TopicChanges:
    """``new_id`` is None where topics are to have none, as brokers would not understand it."""

    def __init__(
        self,
        machinery: Machinery,
        watches: TreeWatches,
        new_id: Callable[[], Uuid] | None,
    ) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._watches = watches
        self._new_id = new_id

    async def load(self) -> None:
        """All topics, and who leads their partitions; the states are for the machines to find."""
        partitions = await self._add(await self._names())
        for partition in partitions:
            if self._context.assignment(partition).is_being_reassigned:
                self._context.reassigning.add(partition)
        self._context.leaderships |= await self._machinery.reads.leaderships(partitions)
        topics = len([*self._context.topics])
        log.info("There are %d topics with %d partitions", topics, len(partitions))

    async def look(self) -> None:
        """Some may have come, or been taken away by hand."""
        names = await self._names()
        known = set(self._context.topics)
        # Of what is being deleted the rest is deleted in its time.
        if gone := sorted(known - names - self._context.to_delete):
            log.warning("Topics %s are gone without having been deleted", gone)
            for topic in gone:
                self._context.forget_topic(topic)
        if new := sorted(names - known):
            log.info("Topics %s are new", new)
            await self._begin(await self._add(new))

    async def look_at_changed(self) -> None:
        """Some may have grown; one that could not be read before may be readable now."""
        changed = self._watches.take_changed_topics()
        unknown = [topic for topic in changed if topic not in self._context]
        added = await self._add(unknown)
        found = await self._read(topic for topic in changed if topic in self._context)
        grown = self._added(found)
        doomed = {each.topic: None for each in grown if each.topic in self._context.to_delete}
        if doomed:
            log.warning("Topics %s are being deleted and do not grow", [*doomed])
            await self._restore({topic: found[topic] for topic in doomed})
        staying = [each for each in grown if each.topic not in doomed]
        self._assign(found, staying)
        if new := [*added, *staying]:
            log.info("%d partitions are new", len(new))
            await self._begin(new)

    async def _names(self) -> set[str]:
        return await self._machinery.reads.topic_names(self._watches.topics)

    async def _read(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        return await self._machinery.reads.topics(topics, self._watches.topic)

    async def _add(self, names: Iterable[str]) -> list[TopicPartition]:
        """To the context: topics that it does not have; their partitions."""
        found = await self._with_ids(await self._read(sorted(names)))
        for name, topic in found.items():
            self._context.add_topic(name, topic.topic_id)
        added = self._added(found)
        self._assign(found, added)
        return added

    async def _with_ids(self, found: dict[str, TopicAssignment]) -> dict[str, TopicAssignment]:
        """Those that have none, perhaps since before there were any, are given one."""
        new_id = self._new_id
        if new_id is None:
            return found
        named = {
            name: replace(topic, topic_id=new_id())
            for name, topic in found.items()
            if topic.topic_id is None
        }
        failed = await self._machinery.writes.write_topics(named)
        for name, failure in failed.items():
            log.error("Topic %s could not be given an id: %r", name, failure)
        return found | {name: topic for name, topic in named.items() if name not in failed}

    def _added(self, found: Mapping[str, TopicAssignment]) -> list[TopicPartition]:
        partitions = (
            TopicPartition(name, number)
            for name, topic in found.items()
            for number in sorted(topic.partitions)
        )
        return [each for each in partitions if not self._context.has_partition(each)]

    def _assign(
        self, found: Mapping[str, TopicAssignment], partitions: Iterable[TopicPartition]
    ) -> None:
        for topic, number in partitions:
            self._context.assign(TopicPartition(topic, number), found[topic].partitions[number])

    async def _begin(self, new: Collection[TopicPartition]) -> None:
        """New partitions get leaders, if any of their replicas is alive."""
        if not new:
            return
        partitions, replicas = self._machinery.partitions, self._machinery.replicas
        await partitions.move(new, PartitionState.NEW)
        begun = [replica for each in new for replica in self._context.replicas_of(each)]
        await replicas.move(begun, ReplicaState.NEW)
        await partitions.move(new, PartitionState.ONLINE, Occasion.OFFLINE)
        await replicas.move(begun, ReplicaState.ONLINE)

    async def _restore(self, found: Mapping[str, TopicAssignment]) -> None:
        restored = {}
        for name, topic in found.items():
            partitions = self._context.partitions_of(name)
            kept = {each.partition: self._context.assignment(each) for each in partitions}
            restored[name] = replace(topic, partitions=kept)
        failed = await self._machinery.writes.write_topics(restored)
        for name, failure in failed.items():
            log.error("The partitions of topic %s could not be restored: %r", name, failure)
