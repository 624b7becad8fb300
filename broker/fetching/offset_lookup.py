"""Which offset of a partition may somebody see for a timestamp, its start or its end?

    -1 latest            up to where the asker may read
    -2 earliest          the log's start
    -3 largest timestamp the record that has it
    -4 earliest local    the log's start: nothing is stored elsewhere
    -5 latest tiered     none, for the same reason

What lies beyond the asker's sight is not found.  While a new leader's high watermark has not come
to where its epoch began, that may be wrong by the next moment: OffsetNotAvailable (KIP-207).

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.broker.replicas.partition import Partition
from odradek.protocol.errors import KafkaError, OffsetNotAvailable
from odradek.storage import log_lookup
from odradek.storage.log import Log
from odradek.storage.log_lookup import EARLIEST, LATEST, FoundOffset, Look, found_in

LARGEST_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -3, -4, -5
_NOWHERE = FoundOffset(-1)


@dataclass(frozen=True, slots=True)
class Sight:
    """How much of a log somebody may see, and of whose."""

    is_limited: bool = True  # to what consumers may read
    is_committed: bool = False
    needs_leader: bool = True


class OffsetLookup:
    """Looks for offsets in one partition."""

    def __init__(self, partition: Partition, sight: Sight, look: Look = found_in) -> None:
        self._partition = partition
        self._sight = sight
        self._look = look

    def at(self, timestamp: int, *, current_leader_epoch: int) -> FoundOffset | None:
        """None if there is nothing so young, or nothing of it that the asker may see."""
        partition = self._partition
        self._check_role(current_leader_epoch)
        end = partition.readable_up_to(
            is_follower=not self._sight.is_limited, committed=self._sight.is_committed
        )
        with partition.hosted as log:
            if timestamp == LATEST:
                self._check_end_is_known(log)
                return FoundOffset(end, leader_epoch=partition.leader_epoch)
            if timestamp in (EARLIEST, EARLIEST_LOCAL):
                return log_lookup.earliest(log)
            if timestamp == LATEST_TIERED:
                return _NOWHERE
            if timestamp == LARGEST_TIMESTAMP:
                found = log_lookup.of_largest_timestamp(log, self._look)
            else:
                found = log_lookup.first_at_or_after(log, timestamp, self._look)
            if found is None or found.offset >= end:
                self._check_end_is_known(log)
                return None
            return found

    def before(self, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
        """Where segments begin that are no younger, newest first, as the oldest version asks."""
        self._check_role()
        if max_offsets < 0:
            raise KafkaError(f"{max_offsets} offsets cannot be listed")
        with self._partition.hosted as log:
            offsets = log_lookup.offsets_before(
                log, timestamp, max_offsets=max_offsets, now_ms=now_ms
            )
            if not self._sight.is_limited or not offsets or offsets[0] <= log.high_watermark:
                return offsets
            visible = [offset for offset in offsets if offset <= log.high_watermark]
            return [log.high_watermark, *visible]

    def _check_role(self, current_leader_epoch: int = -1) -> None:
        if self._sight.needs_leader:
            self._partition.leading(current_leader_epoch)
        else:
            self._partition.check_epoch(current_leader_epoch)

    def _check_end_is_known(self, log: Log) -> None:
        role = self._partition.leader
        if self._sight.is_limited and role is not None and role.start_offset > log.high_watermark:
            raise OffsetNotAvailable(
                f"the high watermark of {self._partition.topic_partition} is "
                f"{log.high_watermark}, and its leader began at {role.start_offset}"
            )
