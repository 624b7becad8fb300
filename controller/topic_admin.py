"""Topics created, grown and given up on request.

What is written here is what an outside tool could write as well: the controller sees it through
its watches and acts on it, whoever is the controller then.  So these writes are not fenced.  They
are checked against the tree as it is, and answered when they are in it; waiting until there are
leaders, or until a topic is gone, is the caller's affair.

    plan, then write: between the two the caller may refuse what exceeds a quota

Each entry is planned in a turn of its own on the loop: a request may have thousands, and some of
them tens of thousands of partitions.

A topic and its configuration are created as one change, so that a crash leaves both or none.  A
growth is for the version of the topic's node that it was planned on; if somebody was faster, it is
planned again.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from itertools import islice
from random import Random
from typing import TypeVar

from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Create,
    Exists,
    Get,
    MetadataStore,
    MultiFailed,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Stat,
    StoreError,
    Write,
)
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_names import is_topic_name, may_collide, metric_name
from odradek.controller.topic_requests import (
    Growth,
    GrowthEntry,
    Known,
    NewTopic,
    TopicDefaults,
    TopicEntry,
    planned_growth,
    planned_topic,
    refused_as_repeated,
    refused_at_sight,
)
from odradek.protocol.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from odradek.protocol.types import Uuid

log = logging.getLogger(__name__)

Entry = TypeVar("Entry")
Planned = TypeVar("Planned")

#: Half of what ZooKeeper takes in one request: paths and access lists travel too.
TOGETHER_BYTES_MAX = 500_000

#: Of a request, in the log.
REFUSALS_TOLD_MAX = 10

#: Of a topic, above its nodes; a guess on the safe side.
OVERHEAD_BYTES = 1_000


class TopicAdmin:
    """Answers are by the names of topics; a KafkaError says why nothing was done for one."""

    def __init__(
        self,
        store: MetadataStore,
        reads: MetadataReads,
        *,
        defaults: Callable[[], TopicDefaults],
        random: Random,
        new_topic_id: Callable[[], Uuid | None],
        finds: Callable[[BrokerRegistration], bool] = lambda _: True,
    ) -> None:
        """``new_topic_id`` gives None where the brokers' protocol is older than topic ids.

        A broker of which ``finds`` is false gets no replicas: no controller could tell it of them.
        """
        self._store = store
        self._reads = reads
        self._defaults = defaults
        self._random = random
        self._new_topic_id = new_topic_id
        self._finds = finds

    # Creation

    async def plan_topics(self, entries: Sequence[TopicEntry]) -> dict[str, NewTopic | KafkaError]:
        """Of two in one request whose names collide, the first is right."""
        plans: dict[str, NewTopic | KafkaError] = {}
        plans |= refused_at_sight([entry.name for entry in entries])
        wanted = [entry for entry in entries if entry.name not in plans]
        names = [entry.name for entry in wanted]
        taken = await self._metric_names(names)
        known = replace(await self._known(names), by_metric_name=taken)
        defaults = self._defaults()
        async for entry in _in_turns(wanted):
            try:
                plans[entry.name] = planned_topic(
                    entry, known, defaults, random=self._random, topic_id=self._new_topic_id()
                )
            except KafkaError as refusal:
                plans[entry.name] = _alone(refusal)
            else:
                taken[metric_name(entry.name)] = entry.name
        _log_refusals("Topics are not created", plans)
        return plans

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Those that somebody else has created since they were planned."""
        failed: dict[str, KafkaError] = {}
        for together in _in_reach_of_a_multi(topics):
            failed |= await self._create_together(together)
        for topic in topics:
            if topic.name not in failed:
                count, factor = len(topic.topic.partitions), topic.replication_factor
                shown = (topic.name, count, factor, topic.settings)
                log.info("Created topic '%s': %d partitions, replicated %d times, %s", *shown)
        return failed

    async def _create_together(self, topics: Iterable[NewTopic]) -> dict[str, KafkaError]:
        failed: dict[str, KafkaError] = {}
        left = {topic.name: topic for topic in topics}
        #: Of topics that were deleted, or never made, by a broker that did not come to an end.
        stray_configs: set[str] = set()
        while left:
            writes: list[Write] = []
            for topic in left.values():
                writes += _creation(topic, has_config=topic.name in stray_configs)
            try:
                await self._store.multi(writes)
                break
            except MultiFailed as failure:
                slot, is_topic = divmod(failure.slot, 2)
                topic = [*left.values()][slot]
                if is_topic and isinstance(failure.cause, NodeExists):
                    del left[topic.name]
                    if not await self._is_ours(topic):
                        failed[topic.name] = TopicAlreadyExists(
                            f"Topic '{topic.name}' exists already."
                        )
                elif not is_topic and isinstance(failure.cause, NodeExists | NoNode):
                    stray_configs ^= {topic.name}
                else:
                    raise failure.cause from failure
        return failed

    async def _is_ours(self, topic: NewTopic) -> bool:
        """Whether it was created after all, and only the answer was lost."""
        found = (await self._reads.topics([topic.name])).get(topic.name)
        if found is None or found.topic_id is None:
            return found == topic.topic
        return found.topic_id == topic.topic.topic_id

    # Growth

    async def plan_growths(self, entries: Sequence[GrowthEntry]) -> dict[str, Growth | KafkaError]:
        plans: dict[str, Growth | KafkaError] = {}
        plans |= refused_as_repeated(entry.name for entry in entries)
        wanted = [entry for entry in entries if entry.name not in plans]
        known = await self._known([entry.name for entry in wanted])
        names = [entry.name for entry in wanted if entry.name in known.topics]
        nodes = dict(zip(names, await self._topic_nodes(names), strict=True))
        async for entry in _in_turns(wanted):
            try:
                topic, version = _decoded(entry.name, nodes.get(entry.name))
                plans[entry.name] = planned_growth(entry, topic, known, version=version)
            except KafkaError as refusal:
                plans[entry.name] = _alone(refusal)
        _log_refusals("Topics get no partitions", plans)
        return plans

    async def grow_topics(self, growths: Sequence[Growth]) -> dict[str, KafkaError]:
        """Those that could not grow any more, since somebody else has changed the topic."""
        failed: dict[str, KafkaError] = {}
        while growths:
            outcomes = await self._store.run([_growing(growth) for growth in growths])
            outdated = []
            for growth, outcome in zip(growths, outcomes, strict=True):
                if isinstance(outcome, BadVersion | NoNode):
                    outdated.append(growth)
                elif isinstance(outcome, StoreError):
                    raise outcome
                else:
                    added = dict(growth.added)
                    log.info("Topic '%s' gets partitions on %s", growth.entry.name, added)
            lost = await self._not_as_meant(outdated)
            again = await self.plan_growths([growth.entry for growth in lost])
            failed |= _refusals(again)
            growths = [plan for plan in again.values() if isinstance(plan, Growth)]
        return failed

    async def _not_as_meant(self, outdated: Sequence[Growth]) -> list[Growth]:
        """Without those that have grown after all: only the answer was lost."""
        nodes = await self._topic_nodes([growth.entry.name for growth in outdated])
        return [
            growth
            for growth, node in zip(outdated, nodes, strict=True)
            if node is None or (node.stat.version, node.value) != (growth.version + 1, growth.node)
        ]

    # Deletion

    async def request_deletions(self, names: Collection[str]) -> dict[str, KafkaError]:
        """The controller does the rest; asking twice is no mistake."""
        possible = [name for name in dict.fromkeys(names) if is_topic_name(name)]
        stats = await self._run([Exists(paths.topic(name)) for name in possible])
        there = [name for name, stat in zip(possible, stats, strict=True) if stat is not None]
        outcomes = await self._store.run([Create(paths.topic_to_delete(name)) for name in there])
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise outcome
        if there:
            log.info("Topics shall be deleted: %s", ", ".join(there))
        return {
            name: UnknownTopicOrPartition(f"Topic '{name}' does not exist.")
            for name in names
            if name not in there
        }

    # Reads

    async def _known(self, names: Iterable[str]) -> Known:
        possible = [name for name in names if is_topic_name(name)]
        stats = await self._run(
            [
                Exists(path(name))
                for path in (paths.topic, paths.topic_to_delete)
                for name in possible
            ]
        )
        of_topics, of_deletions = stats[: len(possible)], stats[len(possible) :]
        brokers = await self._reads.brokers(await self._reads.broker_ids())
        told = {each.id: each.registration for each in brokers.values()}
        return Known(
            racks={number: each.rack for number, each in told.items() if self._finds(each)},
            topics=_where(of_topics, possible),
            to_delete=_where(of_deletions, possible),
        )

    async def _metric_names(self, names: Iterable[str]) -> dict[str, str]:
        """Of all topics, since any may collide; none if none of ``names`` can."""
        others = await self._reads.topic_names() if any(map(may_collide, names)) else ()
        return {metric_name(name): name for name in others}

    async def _topic_nodes(self, names: Sequence[str]) -> list[Node | None]:
        if not names:
            return []
        outcomes = await self._store.run([Get(paths.topic(name)) for name in names])
        nodes: list[Node | None] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
                raise outcome
            nodes.append(outcome if isinstance(outcome, Node) else None)
        return nodes

    async def _run(self, operations: Sequence[Operation]) -> list[Stat | None]:
        outcomes = await self._store.run(operations) if operations else []
        stats: list[Stat | None] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                raise outcome
            assert outcome is None or isinstance(outcome, Stat), outcome
            stats.append(outcome)
        return stats


async def _in_turns(entries: Iterable[Entry]) -> AsyncIterator[Entry]:
    """Others have theirs after each."""
    for entry in entries:
        yield entry
        await asyncio.sleep(0)


def _where(stats: Sequence[Stat | None], names: Sequence[str]) -> set[str]:
    return {name for name, stat in zip(names, stats, strict=True) if stat is not None}


def _decoded(name: str, node: Node | None) -> tuple[TopicAssignment | None, int]:
    if node is None:
        return None, 0
    try:
        return TopicAssignment.decode(node.value, paths.topic(name)), node.stat.version
    except PayloadDamaged as damage:
        raise KafkaError(f"What is known of topic '{name}' cannot be read: {damage}") from damage


def _creation(topic: NewTopic, *, has_config: bool = False) -> tuple[Create | Set, Create]:
    path = paths.topic_config(topic.name).path
    config = (Set if has_config else Create)(path, topic.config_node)
    return config, Create(paths.topic(topic.name), topic.node)


def _growing(growth: Growth) -> Write:
    return Set(paths.topic(growth.entry.name), growth.node, growth.version)


def _in_reach_of_a_multi(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    together: list[NewTopic] = []
    size_bytes = 0
    for topic in topics:
        added_bytes = len(topic.node) + len(topic.config_node) + OVERHEAD_BYTES
        if together and size_bytes + added_bytes > TOGETHER_BYTES_MAX:
            yield together
            together, size_bytes = [], 0
        together.append(topic)
        size_bytes += added_bytes
    if together:
        yield together


def _alone(refusal: KafkaError) -> KafkaError:
    """Without where it was raised: that would hold all plans, and be held by them."""
    return refusal.with_traceback(None)


def _log_refusals(what: str, plans: Mapping[str, Planned | KafkaError]) -> None:
    """On one line, however many there are."""
    refusals = _refusals(plans)
    if refusals:
        told = [f"'{name}': {refusals[name]}" for name in islice(refusals, REFUSALS_TOLD_MAX)]
        rest = len(refusals) - len(told)
        log.info("%s: %s%s", what, " ".join(told), f" And {rest} more." if rest else "")


def _refusals(plans: Mapping[str, Planned | KafkaError]) -> dict[str, KafkaError]:
    return {name: plan for name, plan in plans.items() if isinstance(plan, KafkaError)}
