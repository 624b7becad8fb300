"""Automatic topic creation on first use.

A request waits only until the topic is created in the metadata store.  The controller elects its
leaders afterwards, and clients retry until they exist.  While a topic is being created, no other
request creates it; those clients retry too.  A client also retries after CREATION_TIMEOUT_S: the
metadata store may be unreachable, and other requests on the same connection may not need the store.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from odradek.controller.store.base import SessionExpired
from odradek.controller.topic_names import is_valid_topic_name
from odradek.controller.topic_planning import BROKER_DEFAULT, CreatableTopic, NewTopic
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

log = logging.getLogger("kafka.server")

#: How long to wait for the metadata store: longer than it takes, shorter than any client timeout.
CREATION_TIMEOUT_S = 3.0
#: No further creation starts while so many topics are being created; an estimate.
INFLIGHT_TOPICS_MAX = 1000
#: The number of topic names in a log line.
LOGGED_NAMES_MAX = 10

CreationErrors = dict[str, KafkaError]
StartTask = Callable[[Coroutine[Any, Any, CreationErrors], str], "asyncio.Task[CreationErrors]"]


class TopicAdmin(Protocol):
    """The part of the topic administration that creates topics."""

    async def plan_topics(
        self, entries: Sequence[CreatableTopic], /
    ) -> Mapping[str, NewTopic | KafkaError]: ...

    async def create_topics(self, topics: Sequence[NewTopic], /) -> Mapping[str, KafkaError]: ...


class AutoTopicCreationManager:
    """``internal_topic`` configures the internal topics; all others have the defaults."""

    def __init__(
        self,
        admin: TopicAdmin,
        *,
        is_enabled: Callable[[], bool],
        internal_topic: Callable[[str], CreatableTopic | None],
        start_task: StartTask,
    ) -> None:
        """``is_enabled`` is auto.create.topics.enable."""
        self._admin = admin
        self._is_enabled = is_enabled
        self._internal_topic = internal_topic
        self._start_task = start_task
        self._inflight_topics: set[str] = set()

    @property
    def is_enabled_for_clients(self) -> bool:
        """Whether clients may create topics; internal topics are created in any case."""
        return self._is_enabled()

    async def create(self, names: Collection[str]) -> CreationErrors:
        """Create topics; return the error for each, at best LEADER_NOT_AVAILABLE."""
        errors: CreationErrors = {}
        is_full = len(self._inflight_topics) >= INFLIGHT_TOPICS_MAX
        for name in names:
            if not is_valid_topic_name(name):
                errors[name] = InvalidTopic()
            elif is_full or name in self._inflight_topics:
                errors[name] = UnknownTopicOrPartition()
        to_create = [name for name in dict.fromkeys(names) if name not in errors]
        if not to_create:
            return errors
        self._inflight_topics.update(to_create)
        # A task, because the creation must go on if the client disconnects.
        creation = self._start_task(self._create(to_create), "creating topics")
        await asyncio.wait([creation], timeout=CREATION_TIMEOUT_S)
        if not creation.done():
            return errors | {name: LeaderNotAvailable() for name in to_create}
        return errors | creation.result()

    async def _create(self, names: Collection[str]) -> CreationErrors:
        try:
            plans = dict(
                await self._admin.plan_topics([self._creatable_topic(name) for name in names])
            )
            topics = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
            if topics:
                plans |= await self._admin.create_topics(topics)
        except SessionExpired as error:
            logged_names = ", ".join(list(names)[:LOGGED_NAMES_MAX])
            log.warning(
                "Session expired while creating %d topic(s), outcome unknown: %s: %r",
                len(names),
                logged_names,
                error,
            )
            return {name: LeaderNotAvailable() for name in names}
        finally:
            self._inflight_topics.difference_update(names)
        return {name: _client_error(plan) for name, plan in plans.items()}

    def _creatable_topic(self, name: str) -> CreatableTopic:
        return self._internal_topic(name) or CreatableTopic(
            name=name,
            num_partitions=BROKER_DEFAULT,
            replication_factor=BROKER_DEFAULT,
            assignments=[],
            configs=[],
        )


def _client_error(outcome: NewTopic | KafkaError) -> KafkaError:
    """It does not matter whether this request or another one created the topic."""
    if isinstance(outcome, NewTopic | TopicAlreadyExists):
        return LeaderNotAvailable()
    return outcome
