"""Writes changes of leader and ISR to the store and then to the context.

Each write is conditional on the version of the partition's znode.  The context nearly always equals
the store, so the first attempt uses the context without a read.  After a concurrent change, or if
the context was not enough for a decision, the store is read and the decision is made again, until
every partition is done.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.controller.controller_context import ControllerContext
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.store.base import NoNode, StoreError
from odradek.protocol.types import TopicPartition

#: The maximum number of items that one log line names.
LOGGED_NAMES_MAX = 10

Item = TypeVar("Item")
LeaderAndIsrByPartition = Mapping[TopicPartition, LeaderIsrAndControllerEpoch]

#: Computes the new state of each partition.  A state that is returned unchanged is not written; a
#: partition that is missing in the result is undecided.
Decide = Callable[[LeaderAndIsrByPartition], Awaitable[LeaderAndIsrByPartition]]


class StateChangeFailed(Exception):
    """A partition or replica keeps its state; the message is the reason."""


@dataclass(slots=True)
class LeaderAndIsrUpdates:
    """The result of an update by partition."""

    finished: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)
    #: Partitions without a decision, even with the state of the store.
    undecided: list[TopicPartition] = field(default_factory=list)


class LeaderAndIsrUpdater:
    """Applies a decision to partitions, with retries."""

    def __init__(
        self, context: ControllerContext, reader: MetadataReader, writer: MetadataWriter
    ) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer

    async def update(
        self, partitions: Iterable[TopicPartition], decide: Decide
    ) -> LeaderAndIsrUpdates:
        updates = LeaderAndIsrUpdates()
        known_states = {
            partition: self._context.partition_leadership_info.get(partition)
            for partition in partitions
        }
        current = {
            partition: leader_and_isr
            for partition, leader_and_isr in known_states.items()
            if leader_and_isr
        }
        outdated = await self._update_once(current, decide, updates)
        unknown = [partition for partition in known_states if partition not in current]
        remaining = [*unknown, *updates.undecided, *outdated]
        updates.undecided = []
        while remaining:
            current = await self._reader.get_topic_partition_states(remaining)
            updates.failed |= {
                partition: NoNode(str(partition))
                for partition in remaining
                if partition not in current
            }
            remaining = await self._update_once(current, decide, updates)
        return updates

    async def _update_once(
        self, current: LeaderAndIsrByPartition, decide: Decide, updates: LeaderAndIsrUpdates
    ) -> list[TopicPartition]:
        """Return the partitions whose state in the store is newer than ``current``."""
        new_states = await decide(current) if current else {}
        updates.undecided += [partition for partition in current if partition not in new_states]
        changed = {
            partition: leader_and_isr
            for partition, leader_and_isr in new_states.items()
            if leader_and_isr is not current[partition]
        }
        result = await self._writer.update_leader_and_isr(changed)
        updates.failed |= result.failed
        unchanged = {
            partition: current[partition] for partition in new_states if partition not in changed
        }
        for partition, leader_and_isr in (unchanged | result.finished).items():
            self._context.partition_leadership_info[partition] = updates.finished[partition] = (
                leader_and_isr
            )
        return result.to_retry


def log_failures(
    log: logging.Logger, message: str, failed: Mapping[Item, StateChangeFailed]
) -> None:
    """Write one line per reason, however many items failed."""
    by_reason: defaultdict[str, list[Item]] = defaultdict(list)
    for partition, error in failed.items():
        by_reason[str(error)].append(partition)
    for reason, items in by_reason.items():
        shown = ", ".join(map(str, items[:LOGGED_NAMES_MAX]))
        log.error("%s: %s: %d (%s)", message, reason, len(items), shown)
