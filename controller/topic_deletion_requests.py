"""Topics that shall be deleted, as /admin/delete_topics names them.

A name that no topic has is taken away; so are all of them where topics must not be deleted.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from odradek.controller.machinery import Machinery
from odradek.controller.store.base import Watch

log = logging.getLogger(__name__)


class Deletions(Protocol):
    """The part of the deletion of topics that a request begins with."""

    async def request(self, topics: Collection[str]) -> None: ...

    async def clear_away(self, topics: Collection[str]) -> None: ...


class DeletionRequests:
    """``is_enabled`` is delete.topic.enable."""

    def __init__(
        self, machinery: Machinery, deletions: Deletions, watch: Watch, *, is_enabled: bool
    ) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._deletions = deletions
        self._watch = watch
        self._is_enabled = is_enabled

    async def look(self) -> None:
        asked = await self._machinery.reads.topics_to_delete(self._watch)
        known = sorted(topic for topic in asked if topic in self._context)
        if unknown := sorted(asked.difference(known)):
            log.warning("Topics %s shall be deleted, but are not there", unknown)
            await self._deletions.clear_away(unknown)
        if known and self._is_enabled:
            log.info("Topics %s are to be deleted", known)
            await self._deletions.request(known)
        elif known:
            log.warning("Topics %s stay, since delete.topic.enable is false", known)
            await self._machinery.writes.forget_requested_deletions(known)
