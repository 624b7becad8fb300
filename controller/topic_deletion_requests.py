"""Topics that shall be deleted, as /admin/delete_topics names them.

A name that no topic has is taken away; so are all of them where topics must not be deleted.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from odradek.controller.controller_services import ControllerServices
from odradek.controller.store.base import Watch

log = logging.getLogger(__name__)


class TopicDeletions(Protocol):
    """The part of the deletion of topics that a request begins with."""

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
            log.warning("Topics %s shall be deleted, but are not there", unknown)
            await self._topic_deletion_manager.discard_nonexistent_topics(unknown)
        if known and self._is_enabled:
            log.info("Topics %s are to be deleted", known)
            await self._topic_deletion_manager.enqueue_topics_for_deletion(known)
        elif known:
            log.warning("Topics %s stay, since delete.topic.enable is false", known)
            await self._services.writer.delete_topic_deletions(known)
