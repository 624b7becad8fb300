"""A stand-in for the administration of topics: it plans without a tree, and notes what is done."""

import asyncio
from collections.abc import Mapping
from random import Random

from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_planning import (
    ClusterSnapshot,
    NewPartitions,
    TopicDefaults,
    duplicate_name_errors,
    name_errors,
    plan_topic,
)
from odradek.protocol.errors import KafkaError
from tests.support.metadata_updates import topic_id


class FakeTopics(TopicAdmin):
    """``refused`` cannot be planned, ``failed`` cannot be written; all others can."""

    def __init__(
        self,
        *,
        refused: Mapping[str, KafkaError] | None = None,
        failed: Mapping[str, KafkaError] | None = None,
    ) -> None:
        self._refused = refused or {}
        self._failed = failed or {}
        self.planned: list = []
        self.created: list[str] = []
        self.grown: list[str] = []
        self.deleted: list[str] = []
        self.gate: asyncio.Event | None = None
        self.breaks = False

    async def plan_topics(self, entries):
        await self._pass_gate()
        self.planned += entries
        plans = name_errors([each.name for each in entries])
        for each in entries:
            if each.name not in plans:
                plans[each.name] = self._refused.get(each.name) or _planned(each)
        return plans

    async def create_topics(self, topics):
        self.created += [each.name for each in topics if each.name not in self._failed]
        return self._failures(each.name for each in topics)

    async def plan_partitions(self, entries):
        plans = duplicate_name_errors(each.name for each in entries)
        for each in entries:
            if each.name not in plans:
                growth = NewPartitions(each, b"", {}, version=0)
                plans[each.name] = self._refused.get(each.name) or growth
        return plans

    async def create_partitions(self, new_partitions):
        names = [each.entry.name for each in new_partitions]
        self.grown += [name for name in names if name not in self._failed]
        return self._failures(names)

    async def request_deletions(self, names):
        self.deleted += sorted(names)
        return self._failures(names)

    def _failures(self, names):
        return {name: self._failed[name] for name in names if name in self._failed}

    async def _pass_gate(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.breaks:
            raise OSError("the store is gone")


def _planned(entry):
    known = ClusterSnapshot(racks={1: None, 2: None, 3: None})
    return plan_topic(
        entry,
        known,
        TopicDefaults(num_partitions=2, replication_factor=3),
        random=Random(3),
        topic_id=topic_id(entry.name),
    )
