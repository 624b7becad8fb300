"""Handling of the deletion requests in /admin/delete_topics.

Kafka: KafkaController.processTopicDeletion.  The controller deletes the request for a topic that
does not exist, and all requests if delete.topic.enable is false.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from odradek.controller.controller_services import ControllerServices
from odradek.controller.store.base import Watch

log = logging.getLogger("kafka.controller")


class TopicDeletions(Protocol):
    """The part of TopicDeletionManager that deletion requests need."""

    async def enqueue_topics_for_deletion(self, topics: Collection[str]) -> None: ...

    async def discard_nonexistent_topics(self, topics: Collection[str]) -> None: ...


class TopicDeletionRequests:
    """``is_enabled`` is delete.topic.enable."""

    def __init__(
        self,
        services: ControllerServices,
        topic_deletion_manager: TopicDeletions,
        watch: Watch,
        *,
        is_enabled: bool,
    ) -> None:
        self._services = services
        self._context = services.context
        self._topic_deletion_manager = topic_deletion_manager
        self._watch = watch
        self._is_enabled = is_enabled

    async def process_topic_deletion(self) -> None:
        requested = await self._services.reader.get_topic_deletions(self._watch)
        known = sorted(topic for topic in requested if topic in self._context)
        if unknown := sorted(requested.difference(known)):
            log.warning("Ignoring request to delete non-existing topics %s", unknown)
            await self._topic_deletion_manager.discard_nonexistent_topics(unknown)
        if known and self._is_enabled:
            log.info("Starting topic deletion for topics %s", known)
            await self._topic_deletion_manager.enqueue_topics_for_deletion(known)
        elif known:
            log.warning(
                "Removing deletion requests for topics %s since delete.topic.enable is false", known
            )
            await self._services.writer.delete_topic_deletions(known)
