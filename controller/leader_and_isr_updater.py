"""Changes of who leads and who is in sync, written to the store and then to the context.

Each write is conditional on the version of the partition's node.  What the context has is nearly
always what the store has, so it is tried first, without a read; where somebody was faster, or where
what is known is not enough to decide, the store is read and the decision made again, until all is
settled.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.controller.context import Context
from odradek.controller.leadership import Leadership
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.metadata_writes import MetadataWrites
from odradek.controller.store.base import NoNode, StoreError
from odradek.protocol.types import TopicPartition

#: How many of those that something failed for are named in the log.
NAMES_SHOWN = 10

Thing = TypeVar("Thing")
Leaderships = Mapping[TopicPartition, Leadership]

#: From what is to what shall be.  What is left as it is shall not be written; what is left out
#: cannot be decided.
Decide = Callable[[Leaderships], Awaitable[Leaderships]]


class StateChangeFailed(Exception):
    """A partition or replica stays in the state that it is in; says why."""


@dataclass(slots=True)
class Changes:
    """What became of them, partition by partition."""

    done: dict[TopicPartition, Leadership] = field(default_factory=dict)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)
    #: Those that nothing was decided for, even with what the store has.
    undecided: list[TopicPartition] = field(default_factory=list)


class LeadershipChanges:
    """Makes them, whoever decides what they are."""

    def __init__(self, context: Context, reads: MetadataReads, writes: MetadataWrites) -> None:
        self._context = context
        self._reads = reads
        self._writes = writes

    async def make(self, partitions: Iterable[TopicPartition], decide: Decide) -> Changes:
        changes = Changes()
        known = {each: self._context.leaderships.get(each) for each in partitions}
        current = {each: leadership for each, leadership in known.items() if leadership}
        outdated = await self._round(current, decide, changes)
        unknown = [each for each in known if each not in current]
        remaining = [*unknown, *changes.undecided, *outdated]
        changes.undecided = []
        while remaining:
            current = await self._reads.leaderships(remaining)
            changes.failed |= {each: NoNode(str(each)) for each in remaining if each not in current}
            remaining = await self._round(current, decide, changes)
        return changes

    async def _round(
        self, current: Leaderships, decide: Decide, changes: Changes
    ) -> list[TopicPartition]:
        """Those of which the store has something newer than what was decided on."""
        decided = await decide(current) if current else {}
        changes.undecided += [each for each in current if each not in decided]
        changed = {each: new for each, new in decided.items() if new is not current[each]}
        written = await self._writes.update_leaderships(changed)
        changes.failed |= written.failed
        unchanged = {each: current[each] for each in decided if each not in changed}
        for each, leadership in (unchanged | written.done).items():
            self._context.leaderships[each] = changes.done[each] = leadership
        return written.outdated


def log_failures(log: logging.Logger, what: str, failed: Mapping[Thing, StateChangeFailed]) -> None:
    """A line for each reason, however many there are of whatever could not be moved."""
    by_reason: defaultdict[str, list[Thing]] = defaultdict(list)
    for each, failure in failed.items():
        by_reason[str(failure)].append(each)
    for reason, things in by_reason.items():
        shown = ", ".join(map(str, things[:NAMES_SHOWN]))
        log.error("%s: %s: %d (%s)", what, reason, len(things), shown)
