"""The partition count of an internal topic, as the metadata store has it.

UpdateMetadata omits a partition that never had a leader because all its replicas were offline when
the topic was created.  A count of the partitions in the metadata cache could therefore be too low.
It would map groups to other partitions than the full count does, and the state that they stored in
the meantime could not be found later.

The count is read from the store when the broker starts, when the topic is first seen, if that is
later, and again if the topic was re-created or has more partitions.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from odradek.broker.metadata.metadata_snapshot import Topic
from odradek.controller.store.base import StoreError
from odradek.controller.store.payloads.json_object import CorruptPayload

log = logging.getLogger("kafka.coordinator")


class TopicMetadataReader(Protocol):
    """Reads the partition count from the metadata store."""

    async def partition_count(self, topic: str, /) -> int: ...


class PartitionCountCache:
    """Caches the partition count of one topic."""

    def __init__(
        self,
        topic: str,
        metadata_reader: TopicMetadataReader,
        *,
        start_task: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """``start_task`` starts a background task."""
        self._topic_name = topic
        self._metadata_reader = metadata_reader
        self._start_task = start_task
        self._count = 0
        #: The topic, as in the metadata cache, for which ``_count`` was last found valid.
        self._counted_topic: Topic | None = None
        self._is_refreshing = False

    def get(self, topic: Topic) -> int | None:
        """Return the count; None while it is unknown, in which case a background read starts."""
        if topic is self._counted_topic or self._is_still_valid(topic):
            return self._count
        if not self._is_refreshing:
            self._is_refreshing = True
            self._start_task(
                self._refresh_in_background(topic), f"counting the partitions of {self._topic_name}"
            )
        return None

    def _is_still_valid(self, topic: Topic) -> bool:
        counted = self._counted_topic
        if topic.known_partition_count > self._count or (
            counted is not None and counted.id != topic.id
        ):
            return False
        self._counted_topic = topic
        return True

    async def refresh(self, topic: Topic | None) -> None:
        """Read the count; it stays unknown if the store cannot be read.

        ``topic`` is None if the metadata cache does not have the topic yet.
        """
        try:
            count = await self._metadata_reader.partition_count(self._topic_name)
        except (StoreError, CorruptPayload) as error:
            log.warning("Failed to read the partition count of %s: %s", self._topic_name, error)
            return
        if topic is None and self._counted_topic is not None:
            return  # the store may still have the topic that is being deleted
        # A lower count is older than the metadata cache.
        if topic is None or count >= topic.known_partition_count:
            self._counted_topic, self._count = topic, count

    async def _refresh_in_background(self, topic: Topic) -> None:
        try:
            await self.refresh(topic)
        finally:
            self._is_refreshing = False
