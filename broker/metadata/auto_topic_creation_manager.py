"""Automatic creation of topics on first use.

A topic is created in the tree, and that is all that is waited for: its leaders follow by the
controller, and clients ask again until they are there.  While a topic is being created nobody else
begins to; they ask again too.  So does whoever has waited for long: the store may be out of reach,
and what else was asked on the same connection may need no store.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

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

#: For how long the tree is waited for; longer than it takes, shorter than any client.
CREATION_S = 3.0
#: No more are begun while so many topics wait for the tree; a guess.
IN_CREATION_MAX = 1000
#: Of a request, in the log.
NAMES_TOLD_MAX = 10

Created = dict[str, KafkaError]
Start = Callable[[Coroutine[Any, Any, Created], str], "asyncio.Task[Created]"]


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
        start: Start,
    ) -> None:
        """``is_enabled`` is auto.create.topics.enable."""
        self._admin = admin
        self._is_enabled = is_enabled
        self._internal = internal
        self._start = start
        self._in_creation: set[str] = set()

    @property
    def serves_clients(self) -> bool:
        """Whether they may create by asking; the broker's own topics are created in any case."""
        return self._is_enabled()

    async def create(self, names: Collection[str]) -> Created:
        """What whoever asked for each is told: at best that it has no leader yet."""
        told: Created = {}
        is_full = len(self._in_creation) >= IN_CREATION_MAX
        for name in names:
            if not is_topic_name(name):
                told[name] = InvalidTopic()
            elif is_full or name in self._in_creation:
                told[name] = UnknownTopicOrPartition()
        to_create = [name for name in dict.fromkeys(names) if name not in told]
        if not to_create:
            return told
        self._in_creation.update(to_create)
        # A task: it goes on though nobody may wait for it any more.
        creation = self._start(self._created(to_create), "creating topics")
        await asyncio.wait([creation], timeout=CREATION_S)
        if not creation.done():
            return told | {name: LeaderNotAvailable() for name in to_create}
        return told | creation.result()

    async def _created(self, names: Collection[str]) -> Created:
        try:
            plans = dict(await self._admin.plan_topics([self._entry(name) for name in names]))
            topics = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
            if topics:
                plans |= await self._admin.create_topics(topics)
        except SessionExpired as over:
            some = ", ".join(list(names)[:NAMES_TOLD_MAX])
            log.warning(
                "Whether %d topics are created is not known: %s: %r", len(names), some, over
            )
            return {name: LeaderNotAvailable() for name in names}
        finally:
            self._in_creation.difference_update(names)
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
