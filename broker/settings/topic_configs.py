"""Loads and forgets the configurations of topics as they are created and deleted.

There is no change notification for a new topic, so its configuration is read before its first log
is created here.  It is forgotten when the topic is deleted, so that a new topic with the same name
does not inherit it.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition


class TopicConfigs:
    """Gives handlers access to topic configurations in settings and store."""

    def __init__(self, settings: DynamicSettings, store: MetadataStore) -> None:
        self._settings = settings
        self._store = store

    async def read(self, topics: Collection[str]) -> None:
        """Raises StoreError if the configurations cannot be read."""
        await self._settings.read_topics(self._store, topics)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Call this after all partitions of these topics were deleted."""
        for topic in {partition.topic for partition in partitions}:
            self._settings.forget_topic(topic)
