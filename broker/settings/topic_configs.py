"""The configurations of topics, as this broker comes to know and to forget them.

That a topic was created is not told as a change of its configuration, so that it is read before its
first log is made here; and forgotten when the topic is gone, lest the next of that name has it.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition


class TopicConfigs:
    """What handlers need of the settings and the store."""

    def __init__(self, settings: DynamicSettings, store: MetadataStore) -> None:
        self._settings = settings
        self._store = store

    async def read(self, topics: Collection[str]) -> None:
        """StoreError if they cannot be read."""
        await self._settings.read_topics(self._store, topics)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """All partitions of their topics are gone."""
        for topic in {partition.topic for partition in partitions}:
            self._settings.forget_topic(topic)
