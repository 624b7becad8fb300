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

from odradek.broker.metadata.picture import Topic
from odradek.controller.store.base import StoreError
from odradek.controller.store.payloads.fields import PayloadDamaged

log = logging.getLogger(__name__)


class Tree(Protocol):
    """What is asked."""

    async def partition_count(self, topic: str, /) -> int: ...


class PartitionCount:
    """Of one topic."""

    def __init__(
        self, topic: str, tree: Tree, *, start: Callable[[Coroutine[Any, Any, None], str], object]
    ) -> None:
        """``start`` starts a task."""
        self._name = topic
        self._tree = tree
        self._start = start
        self._count = 0
        #: As it was told of when it was last found to have so many.
        self._counted: Topic | None = None
        self._is_asking = False

    def of(self, topic: Topic) -> int | None:
        """None as long as it is not known; it is being asked for then."""
        if topic is self._counted or self._is_as_before(topic):
            return self._count
        if not self._is_asking:
            self._is_asking = True
            self._start(self._ask(topic), f"counting the partitions of {self._name}")
        return None

    def _is_as_before(self, topic: Topic) -> bool:
        before = self._counted
        if topic.told_count > self._count or (before is not None and before.id != topic.id):
            return False
        self._counted = topic
        return True

    async def learn(self, topic: Topic | None) -> None:
        """It is known afterwards, unless the tree cannot be read; also of one yet to be told of."""
        try:
            count = await self._tree.partition_count(self._name)
        except (StoreError, PayloadDamaged) as failure:
            log.warning("The partitions of %s could not be counted: %s", self._name, failure)
            return
        if topic is None and self._counted is not None:
            return  # perhaps of the one that is being deleted
        # Else what was read is older than what we were told.
        if topic is None or count >= topic.told_count:
            self._counted, self._count = topic, count

    async def _ask(self, topic: Topic) -> None:
        try:
            await self.learn(topic)
        finally:
            self._is_asking = False
