"""How many partitions has an internal topic?  As many as the tree says, whoever leads them.

Brokers are not told of a partition that never had a leader: all its replicas were away when the
topic was made.  Who counted those that are told of would look for groups in other partitions than
afterwards, and what they had stored till then would be found no more.

The tree is asked when the broker starts, when the topic is first seen, if that is later, and again
if it is another one or has grown.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from odradek.broker.metadata.metadata_snapshot import Topic
from odradek.controller.store.base import StoreError
from odradek.controller.store.payloads.json_object import CorruptPayload

log = logging.getLogger(__name__)


class TopicMetadataReader(Protocol):
    """What is asked."""

    async def partition_count(self, topic: str, /) -> int: ...


class PartitionCountCache:
    """Of one topic."""

    def __init__(
        self,
        topic: str,
        metadata_reader: TopicMetadataReader,
        *,
        start_task: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """``start`` starts a task."""
        self._topic_name = topic
        self._metadata_reader = metadata_reader
        self._start_task = start_task
        self._count = 0
        #: As it was told of when it was last found to have so many.
        self._counted_topic: Topic | None = None
        self._is_refreshing = False

    def get(self, topic: Topic) -> int | None:
        """None as long as it is not known; it is being asked for then."""
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
        """It is known afterwards, unless the tree cannot be read; also of one yet to be told of."""
        try:
            count = await self._metadata_reader.partition_count(self._topic_name)
        except (StoreError, CorruptPayload) as error:
            log.warning("The partitions of %s could not be counted: %s", self._topic_name, error)
            return
        if topic is None and self._counted_topic is not None:
            return  # perhaps of the one that is being deleted
        # Else what was read is older than what we were told.
        if topic is None or count >= topic.known_partition_count:
            self._counted_topic, self._count = topic, count

    async def _refresh_in_background(self, topic: Topic) -> None:
        try:
            await self.refresh(topic)
        finally:
            self._is_refreshing = False
