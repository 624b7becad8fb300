"""Creation of topics and partitions, and requests to delete topics.  Kafka: ZkAdminManager.

The writes are the same that an external tool could make: the controller at that time notices them
through its watches and acts on them.  So these writes are not fenced by the controller epoch.  They
are checked against the current store, and a call returns when they are stored.  The caller waits
until the partitions have leaders, or until a topic is deleted.

A change has two steps, plan and write; between them the caller may reject what exceeds a quota.

The event loop gets a chance to run other tasks after each planned entry, because a request may
contain thousands of entries, and some of them tens of thousands of partitions.

Crash order: a topic and its configuration are created in one multi, so a crash leaves both or none.
New partitions are conditional on the version of the topic's znode that was planned on; if another
client changed the znode meanwhile, they are planned again.

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

from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Create,
    Exists,
    GetData,
    MetadataStore,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    SetData,
    Stat,
    StoreError,
    Write,
    ZNode,
)
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_names import (
    has_collision_chars,
    is_valid_topic_name,
    unify_collision_chars,
)
from odradek.controller.topic_planning import (
    ClusterSnapshot,
    CreatableTopic,
    CreatePartitionsTopic,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    duplicate_name_errors,
    name_errors,
    plan_new_partitions,
    plan_topic,
)
from odradek.protocol.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from odradek.protocol.types import Uuid

log = logging.getLogger("kafka.zk")

Entry = TypeVar("Entry")
Plan = TypeVar("Plan")

#: Half of ZooKeeper's limit for one request, because paths and ACLs count too.
MULTI_BYTES_MAX = 500_000

#: The number of errors of one request that are logged.
LOGGED_ERRORS_MAX = 10

#: The size of a topic's operations beyond its payloads, estimated generously.
TOPIC_OVERHEAD_BYTES = 1_000


class TopicAdmin:
    """Plans and writes changes of topics.  Results are keyed by topic name; errors are values."""

    def __init__(
        self,
        store: MetadataStore,
        reader: MetadataReader,
        *,
        defaults: Callable[[], TopicDefaults],
        random: Random,
        new_topic_id: Callable[[], Uuid | None],
        has_required_listeners: Callable[[BrokerRegistration], bool] = lambda _: True,
    ) -> None:
        """``new_topic_id`` returns None if the inter-broker protocol does not support topic ids.

        A broker for which ``has_required_listeners`` is false gets no replicas, because no
        controller could send requests to it.
        """
        self._store = store
        self._reader = reader
        self._defaults = defaults
        self._random = random
        self._new_topic_id = new_topic_id
        self._has_required_listeners = has_required_listeners

    # Creation

    async def plan_topics(
        self, entries: Sequence[CreatableTopic]
    ) -> dict[str, NewTopic | KafkaError]:
        """Plan new topics; if names in one request collide, the first one is accepted."""
        plans: dict[str, NewTopic | KafkaError] = {}
        plans |= name_errors([entry.name for entry in entries])
        valid = [entry for entry in entries if entry.name not in plans]
        names = [entry.name for entry in valid]
        topics_by_metric_name = await self._topics_by_metric_name(names)
        snapshot = replace(
            await self._read_snapshot(names), topics_by_metric_name=topics_by_metric_name
        )
        defaults = self._defaults()
        async for entry in _sliced(valid):
            try:
                plans[entry.name] = plan_topic(
                    entry, snapshot, defaults, random=self._random, topic_id=self._new_topic_id()
                )
            except KafkaError as error:
                plans[entry.name] = _without_traceback(error)
            else:
                topics_by_metric_name[unify_collision_chars(entry.name)] = entry.name
        _log_errors("Failed to create topics", plans)
        return plans

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Write the planned topics; return those that another client has created meanwhile."""
        failed: dict[str, KafkaError] = {}
        for batch in _split_into_multis(topics):
            failed |= await self._create_in_one_multi(batch)
        for topic in topics:
            if topic.name not in failed:
                count, factor = len(topic.assignment.partitions), topic.replication_factor
                details = (topic.name, count, factor, topic.settings)
                log.info("Created topic '%s': %d partition(s), replication factor %d, %s", *details)
        return failed

    async def _create_in_one_multi(self, topics: Iterable[NewTopic]) -> dict[str, KafkaError]:
        failed: dict[str, KafkaError] = {}
        remaining = {topic.name: topic for topic in topics}
        #: Topics with a config left by a broker that crashed during a creation or deletion.
        stray_configs: set[str] = set()
        while remaining:
            writes: list[Write] = []
            for topic in remaining.values():
                writes += _create_operations(topic, has_config=topic.name in stray_configs)
            try:
                await self._store.multi(writes)
                break
            except MultiFailed as error:
                slot, is_topic = divmod(error.index, 2)
                topic = [*remaining.values()][slot]
                if is_topic and isinstance(error.cause, NodeExists):
                    del remaining[topic.name]
                    if not await self._is_own_creation(topic):
                        failed[topic.name] = TopicAlreadyExists(
                            f"Topic '{topic.name}' already exists."
                        )
                elif not is_topic and isinstance(error.cause, NodeExists | NoNode):
                    stray_configs ^= {topic.name}
                else:
                    raise error.cause from error
        return failed

    async def _is_own_creation(self, topic: NewTopic) -> bool:
        """Whether the creation succeeded and only the response was lost."""
        existing = (await self._reader.get_topic_assignments([topic.name])).get(topic.name)
        if existing is None or existing.topic_id is None:
            return existing == topic.assignment
        return existing.topic_id == topic.assignment.topic_id

    # Partitions

    async def plan_partitions(
        self, entries: Sequence[CreatePartitionsTopic]
    ) -> dict[str, NewPartitions | KafkaError]:
        plans: dict[str, NewPartitions | KafkaError] = {}
        plans |= duplicate_name_errors(entry.name for entry in entries)
        valid = [entry for entry in entries if entry.name not in plans]
        snapshot = await self._read_snapshot([entry.name for entry in valid])
        names = [entry.name for entry in valid if entry.name in snapshot.topics]
        nodes = dict(zip(names, await self._get_topic_nodes(names), strict=True))
        async for entry in _sliced(valid):
            try:
                topic, version = _decode_topic(entry.name, nodes.get(entry.name))
                plans[entry.name] = plan_new_partitions(entry, topic, snapshot, version=version)
            except KafkaError as error:
                plans[entry.name] = _without_traceback(error)
        _log_errors("Failed to create partitions", plans)
        return plans

    async def create_partitions(
        self, new_partitions: Sequence[NewPartitions]
    ) -> dict[str, KafkaError]:
        """Write the planned partitions; return the errors of topics that were changed meanwhile."""
        failed: dict[str, KafkaError] = {}
        while new_partitions:
            outcomes = await self._store.run([_update_operation(plan) for plan in new_partitions])
            outdated = []
            for plan, outcome in zip(new_partitions, outcomes, strict=True):
                if isinstance(outcome, BadVersion | NoNode):
                    outdated.append(plan)
                elif isinstance(outcome, StoreError):
                    raise outcome
                else:
                    added = dict(plan.added_replicas)
                    log.info("Created partitions of topic '%s': %s", plan.entry.name, added)
            not_applied = await self._not_applied(outdated)
            replanned = await self.plan_partitions([plan.entry for plan in not_applied])
            failed |= _errors(replanned)
            new_partitions = [
                plan for plan in replanned.values() if isinstance(plan, NewPartitions)
            ]
        return failed

    async def _not_applied(self, outdated: Sequence[NewPartitions]) -> list[NewPartitions]:
        """Return the plans that were not applied, without those whose response was lost."""
        nodes = await self._get_topic_nodes([plan.entry.name for plan in outdated])
        return [
            plan
            for plan, node in zip(outdated, nodes, strict=True)
            if node is None
            or (node.stat.version, node.value) != (plan.version + 1, plan.encoded_topic)
        ]

    # Deletion

    async def request_deletions(self, names: Collection[str]) -> dict[str, KafkaError]:
        """Request the deletion of topics, which the controller performs; repeating is harmless."""
        valid = [name for name in dict.fromkeys(names) if is_valid_topic_name(name)]
        stats = await self._get_stats([Exists(paths.topic(name)) for name in valid])
        existing = [name for name, stat in zip(valid, stats, strict=True) if stat is not None]
        outcomes = await self._store.run([Create(paths.topic_to_delete(name)) for name in existing])
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise outcome
        if existing:
            log.info("Requested deletion of topics: %s", ", ".join(existing))
        return {
            name: UnknownTopicOrPartition(f"Topic '{name}' does not exist.")
            for name in names
            if name not in existing
        }

    # Reads

    async def _read_snapshot(self, names: Iterable[str]) -> ClusterSnapshot:
        valid = [name for name in names if is_valid_topic_name(name)]
        stats = await self._get_stats(
            [Exists(path(name)) for path in (paths.topic, paths.topic_to_delete) for name in valid]
        )
        topic_stats, deletion_stats = stats[: len(valid)], stats[len(valid) :]
        brokers = await self._reader.get_brokers(await self._reader.get_broker_ids())
        registrations = {each.id: each.registration for each in brokers.values()}
        return ClusterSnapshot(
            racks={
                broker_id: registration.rack
                for broker_id, registration in registrations.items()
                if self._has_required_listeners(registration)
            },
            topics=_existing_names(topic_stats, valid),
            topics_to_be_deleted=_existing_names(deletion_stats, valid),
        )

    async def _topics_by_metric_name(self, names: Iterable[str]) -> dict[str, str]:
        """Map all topics, because any may collide; none if no name in ``names`` can collide."""
        others = (
            await self._reader.get_topic_names() if any(map(has_collision_chars, names)) else ()
        )
        return {unify_collision_chars(name): name for name in others}

    async def _get_topic_nodes(self, names: Sequence[str]) -> list[ZNode | None]:
        if not names:
            return []
        outcomes = await self._store.run([GetData(paths.topic(name)) for name in names])
        nodes: list[ZNode | None] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
                raise outcome
            nodes.append(outcome if isinstance(outcome, ZNode) else None)
        return nodes

    async def _get_stats(self, operations: Sequence[Operation]) -> list[Stat | None]:
        outcomes = await self._store.run(operations) if operations else []
        stats: list[Stat | None] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                raise outcome
            assert outcome is None or isinstance(outcome, Stat), outcome
            stats.append(outcome)
        return stats


async def _sliced(entries: Iterable[Entry]) -> AsyncIterator[Entry]:
    """Yield to the event loop after each entry."""
    for entry in entries:
        yield entry
        await asyncio.sleep(0)


def _existing_names(stats: Sequence[Stat | None], names: Sequence[str]) -> set[str]:
    return {name for name, stat in zip(names, stats, strict=True) if stat is not None}


def _decode_topic(name: str, node: ZNode | None) -> tuple[TopicAssignment | None, int]:
    if node is None:
        return None, 0
    try:
        return TopicAssignment.decode(node.value, paths.topic(name)), node.stat.version
    except CorruptPayload as error:
        raise KafkaError(f"Failed to read the assignment of topic '{name}': {error}") from error


def _create_operations(
    topic: NewTopic, *, has_config: bool = False
) -> tuple[Create | SetData, Create]:
    path = paths.topic_config(topic.name).path
    config = (SetData if has_config else Create)(path, topic.encoded_config)
    return config, Create(paths.topic(topic.name), topic.encoded_topic)


def _update_operation(new_partitions: NewPartitions) -> Write:
    return SetData(
        paths.topic(new_partitions.entry.name), new_partitions.encoded_topic, new_partitions.version
    )


def _split_into_multis(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    batch: list[NewTopic] = []
    size_bytes = 0
    for topic in topics:
        added_bytes = len(topic.encoded_topic) + len(topic.encoded_config) + TOPIC_OVERHEAD_BYTES
        if batch and size_bytes + added_bytes > MULTI_BYTES_MAX:
            yield batch
            batch, size_bytes = [], 0
        batch.append(topic)
        size_bytes += added_bytes
    if batch:
        yield batch


def _without_traceback(error: KafkaError) -> KafkaError:
    """Drop the traceback, which would keep all plans alive in a reference cycle."""
    return error.with_traceback(None)


def _log_errors(message: str, plans: Mapping[str, Plan | KafkaError]) -> None:
    """Log the errors of one request in one line."""
    errors = _errors(plans)
    if errors:
        shown = [f"'{name}': {errors[name]}" for name in islice(errors, LOGGED_ERRORS_MAX)]
        rest = len(errors) - len(shown)
        log.info("%s: %s%s", message, " ".join(shown), f" And {rest} more." if rest else "")


def _errors(plans: Mapping[str, Plan | KafkaError]) -> dict[str, KafkaError]:
    return {name: plan for name, plan in plans.items() if isinstance(plan, KafkaError)}
