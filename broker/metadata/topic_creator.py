"""Automatic creation of topics on first use.

A topic is created in the tree, and that is all that is waited for: its leaders follow by the
controller, and clients ask again until they are there.  While a topic is being created nobody else
begins to; they ask again too.  So they do if the store is away, or has forgotten this broker.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from odradek.controller.store.base import SessionExpired
from odradek.controller.topic_names import is_topic_name
from odradek.controller.topic_requests import BY_DEFAULT, NewTopic, TopicEntry
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

log = logging.getLogger(__name__)

#: Shorter than clients wait for an answer, longer than it takes where the store is there.
PATIENCE_S = 5.0


class Admin(Protocol):
    """The part of the administration of topics that creates them."""

    async def plan_topics(
        self, entries: Sequence[TopicEntry], /
    ) -> Mapping[str, NewTopic | KafkaError]: ...

    async def create_topics(self, topics: Sequence[NewTopic], /) -> Mapping[str, KafkaError]: ...


class TopicCreator:
    """``internal`` says how the broker's own topics are to be; all others are by the defaults."""

    def __init__(
        self,
        admin: Admin,
        *,
        is_enabled: Callable[[], bool],
        internal: Callable[[str], TopicEntry | None],
    ) -> None:
        """``is_enabled`` is auto.create.topics.enable."""
        self._admin = admin
        self._is_enabled = is_enabled
        self._internal = internal
        self._in_creation: set[str] = set()

    @property
    def serves_clients(self) -> bool:
        """Whether they may create by asking; the broker's own topics are created in any case."""
        return self._is_enabled()

    async def create(self, names: Collection[str]) -> dict[str, KafkaError]:
        """What whoever asked for each is told: at best that it has no leader yet."""
        told: dict[str, KafkaError] = {}
        for name in names:
            if not is_topic_name(name):
                told[name] = InvalidTopic()
            elif name in self._in_creation:
                told[name] = UnknownTopicOrPartition()
        to_create = [name for name in dict.fromkeys(names) if name not in told]
        self._in_creation.update(to_create)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return told | await self._created(to_create)
        except (SessionExpired, TimeoutError) as away:
            log.warning("Topics %s may not be created: %r", to_create, away)
            return told | {name: LeaderNotAvailable() for name in to_create}
        finally:
            self._in_creation.difference_update(to_create)

    async def _created(self, names: Collection[str]) -> dict[str, KafkaError]:
        if not names:
            return {}
        plans = dict(await self._admin.plan_topics([self._entry(name) for name in names]))
        topics = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
        if topics:
            plans |= await self._admin.create_topics(topics)
        return {name: _told_of(plan) for name, plan in plans.items()}

    def _entry(self, name: str) -> TopicEntry:
        return self._internal(name) or TopicEntry(
            name=name,
            num_partitions=BY_DEFAULT,
            replication_factor=BY_DEFAULT,
            assignments=[],
            configs=[],
        )


def _told_of(outcome: NewTopic | KafkaError) -> KafkaError:
    """Who has created it does not matter."""
    if isinstance(outcome, NewTopic | TopicAlreadyExists):
        return LeaderNotAvailable()
    return outcome
