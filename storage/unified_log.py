"""The log of one partition: append, read, roll; its ends and its stable part.

    start_offset       the first offset that may be read; only grows
    high_watermark     what the replicas in sync have; consumers read up to here
    last_stable_offset no open transaction lies before it; read_committed reads up to here
    end_offset         the next offset
    recovery_point     everything before it has been synced

The order of an append: the batches are checked and numbered, the producers' states are asked, the
bytes are written, ``end_offset`` moves, and only then do the states and the transaction index
follow.  If the transaction index cannot be written, the records are there and the next offset is
right, but the last stable offset stays where it was.

Syncing sleeps in the kernel, so it is three steps: ``plan_flush`` here, ``run`` anywhere,
``flushed`` here again.

Invariant: start_offset <= high_watermark <= end_offset, and recovery_point <= end_offset.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from odradek.protocol.errors import OffsetOutOfRange
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.batch import MAGIC, NO_PARTITION_LEADER_EPOCH
from odradek.protocol.records.record import NO_TIMESTAMP
from odradek.protocol.records.record_set import AnyBatch, magic_of
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.admission.checked_batch import CheckedBatch
from odradek.storage.admission.errors import UnexpectedAppendOffset
from odradek.storage.admission.offset_assignment import Admitted, admit, admit_as_follower
from odradek.storage.admission.rules import append_rules
from odradek.storage.deletion import remove
from odradek.storage.flush_plan import FlushPlan
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_segment import LogSegment, SegmentShape
from odradek.storage.log_truncation import begin_before
from odradek.storage.open_segments import (
    OutOfDescriptors,
    is_for_want_of_descriptors,
    let_go,
    undivided,
)
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.producers.state import ProducerStates
from odradek.storage.producers.verification_guards import VerificationGuard
from odradek.storage.rolling import must_roll
from odradek.storage.segment_list import SegmentList
from odradek.storage.settings import TopicSettings
from odradek.storage.transaction_index import AbortedTransaction

OFFSET_DELTA_MAX = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class LogParts:
    """What a log is made of, once its directory has been read or made."""

    segments: SegmentList
    producers: ProducerStates
    epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    recovery_point: int


# Never changed, yet not frozen: that would take five times as long to make, for every append.
@dataclass(slots=True)
class Written:
    """What became of an append; treat as immutable.  Without records, the offsets are -1."""

    first_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP
    is_duplicate: bool = False
    converted_count: int = 0
    size_bytes: int = 0
    leader_epoch: int | None = None  # in which it was appended, if that is known


class Log:
    """A partition's records, in segments."""

    def __init__(
        self, directory: Path, partition: TopicPartition, settings: TopicSettings, parts: LogParts
    ) -> None:
        self.directory = directory
        self.partition = partition
        self.segments = parts.segments
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.start_offset = parts.start_offset
        self.end_offset = parts.end_offset
        self.recovery_point = parts.recovery_point
        self.high_watermark = parts.start_offset
        self.last_flush_ms: int | None = None
        #: Where truncations have cut: what lies beyond has been written again since.
        self.cuts: list[int] = []
        self._unsynced_snapshots: list[Path] = []
        self.configure(settings)

    def configure(self, settings: TopicSettings) -> None:
        """Take over changed settings; segments get their shape from them when they are made."""
        self.settings = settings
        self.rules = append_rules(settings)
        self.shape = shape_of(settings)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.transactions.first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return max(unstable, self.start_offset)
        return self.high_watermark

    # Appending

    def append_as_leader(
        self,
        records: memoryview | bytearray | CheckedBatch,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> Written:
        """Check, number and write; ``records`` must be writable and are patched in place."""
        admitted = admit(
            records,
            self.rules,
            next_offset=self.end_offset,
            leader_epoch=leader_epoch,
            origin=origin,
            now_ms=now_ms,
        )
        if not admitted.batches:
            return Written(first_offset=-1, last_offset=-1)
        return self._append(admitted, origin, guard, now_ms)

    def append_as_follower(
        self, records: memoryview | bytearray, *, now_ms: int, leader_epoch: int | None = None
    ) -> Written:
        """Take over what the leader of ``leader_epoch`` numbered, if it is known which one did.

        A leader whose start lies inside a batch sends the whole of it.  An empty log then begins
        again at that batch, before its last end: whoever compacts it has to be told (``truncated``
        of the schedule).
        """
        try:
            admitted = admit_as_follower(records, leader_epoch, next_offset=self.end_offset)
        except UnexpectedAppendOffset as unexpected:
            is_empty = self.start_offset == self.end_offset
            if not (is_empty and unexpected.last_offset >= self.end_offset):
                raise
            remove(begin_before(self, unexpected.first_offset))
            admitted = admit_as_follower(records, leader_epoch, next_offset=self.end_offset)
        if not admitted.batches:
            return Written(first_offset=-1, last_offset=-1)
        return self._append(admitted, AppendOrigin.REPLICATION, None, now_ms)

    def _append(
        self,
        admitted: Admitted,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        now_ms: int,
    ) -> Written:
        batches = admitted.batches
        decision = self.producers.decide(batches, origin, guard=guard)
        if decision.duplicate_of is not None:
            original = decision.duplicate_of
            return Written(
                first_offset=original.first_offset,
                last_offset=original.last_offset,
                append_time_ms=original.timestamp,
                is_duplicate=True,
                leader_epoch=self.epochs.epoch_of(original.last_offset),
            )
        if len(batches) > 1 or batches[0].partition_leader_epoch != self.epochs.latest_epoch:
            self._note_epochs(batches)
        segment = self.segments.active
        if must_roll(self, segment, admitted, now_ms):
            segment = self._rolled_for(admitted, now_ms)
        if segment.base_offset > self.end_offset:
            # It has begun beyond the end: without a batch in it, the log could not go on.
            with undivided():
                segment.append(admitted.buffers, batches)
        else:
            segment.append(admitted.buffers, batches)
        self.end_offset = admitted.last_offset + 1
        self.producers.apply(decision)
        for transaction in decision.completed:
            if transaction.is_aborted:
                stable = self.producers.transactions.last_stable_offset_for(transaction)
                producer_id, first_offset, last_offset, _ = transaction
                segment.transaction_index.append(
                    AbortedTransaction(producer_id, first_offset, last_offset, stable)
                )
            self.producers.transactions.complete(transaction)
        self.producers.advance(self.end_offset)
        return Written(
            admitted.first_offset,
            admitted.last_offset,
            admitted.append_time_ms,
            False,
            admitted.converted_count,
            admitted.size_bytes,
            self.epochs.latest_epoch,
        )

    def _note_epochs(self, batches: Sequence[AnyBatch]) -> None:
        latest = self.epochs.latest_epoch
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch == latest:
                continue
            if epoch > NO_PARTITION_LEADER_EPOCH:
                # An epoch below the latest shows that no batch of the latest was ever appended.
                self.epochs.assign(epoch, start_offset=batch.base_offset)
            elif magic_of(batch) < MAGIC:
                # Old formats have no epochs: truncation goes by the high watermark again.
                self.epochs.clear()
            latest = self.epochs.latest_epoch

    def _rolled_for(self, admitted: Admitted, now_ms: int) -> LogSegment:
        first_offset = admitted.first_offset
        if magic_of(admitted.batches[0]) < MAGIC:
            # An old wrapper tells only its last offset; its first is no further away than this.
            first_offset = admitted.last_offset - OFFSET_DELTA_MAX
        return self.roll(now_ms=now_ms, base_offset=first_offset)

    def roll(self, *, now_ms: int, base_offset: int | None = None) -> LogSegment:
        """Seal the active segment and begin another, at the end of the log or beyond it."""
        base_offset = max(self.end_offset, base_offset if base_offset is not None else 0)
        active = self.segments.active
        if active.base_offset == base_offset:
            assert active.size_bytes == 0, active
            return active
        active.seal()
        self.producers.advance(base_offset)
        snapshot = self.producers.take_snapshot(is_synced=False)
        if snapshot is not None:
            self._unsynced_snapshots.append(snapshot)
        segment = LogSegment(self.directory, base_offset, self.shape)
        segment.create()
        segment.begun_ms = now_ms
        if active.size_bytes == 0 and active is not self.segments.first:
            # Nothing was ever written to it; two segments must not share its offsets.  But there
            # must be one after any power cut, since its name tells where the log ends.  The first
            # stays: its name tells where the log starts.
            files.sync_directory(self.directory)
            self.segments.remove([active])
            active.remove()
        self.segments.add(segment)
        return segment

    # Reading

    def read(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True
    ) -> FileRegion:
        """Lend the batches from the one that holds ``offset`` on, none that holds ``up_to``.

        The region is empty at the end; OffsetOutOfRange before the start or beyond the end.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"{self.partition} has offsets {self.start_offset} to {self.end_offset}, "
                f"not {offset}"
            )
        segment = self.segments.holding(offset) or self.segments.first
        try:
            while offset < up_to:
                end_position = segment.size_bytes
                following = self.segments.after(segment)
                if up_to < (self.end_offset if following is None else following.base_offset):
                    end_position = self._position_before(segment, up_to)
                region = segment.read(
                    offset,
                    max_bytes=max_bytes,
                    end_position=end_position,
                    at_least_one=at_least_one,
                )
                if region is not None:
                    return region
                if following is None:
                    break
                # Compaction has left nothing at or after the offset in this segment.
                segment = following
        except OSError as failure:
            if is_for_want_of_descriptors(failure) and not segment.are_indexes_half_made:
                let_go(self.segments)
                raise OutOfDescriptors(f"reading {self.partition}: {failure}") from failure
            raise
        return FileRegion(-1, 0, 0)

    def _position_before(self, segment: LogSegment, offset: int) -> int:
        place = segment.find(offset)
        return segment.size_bytes if place is None else place.position

    def aborted_transactions(self, *, start: int, end: int) -> list[AbortedTransaction]:
        """Those that reach into the offsets from ``start`` to before ``end``, by first offset."""
        found: list[AbortedTransaction] = []
        for segment in self.segments.aborting_from(start):
            overlapping = segment.transaction_index.overlapping(start=start, end=end)
            found += overlapping.transactions
            if overlapping.is_complete:
                break
        return sorted(found, key=lambda aborted: aborted.first_offset)

    # Moving the ends

    def advance_high_watermark(self, offset: int) -> None:
        """It may go back only by truncation or when leadership changes."""
        assert self.start_offset <= offset <= self.end_offset, (self, offset)
        self.high_watermark = offset
        self.producers.transactions.on_high_watermark(offset)

    def advance_start(self, offset: int) -> bool:
        """Forget what lies before ``offset``; False if it was forgotten already."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.partition} cannot start at {offset}, beyond its high watermark "
                f"{self.high_watermark}"
            )
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.on_log_start_moved(offset)
        return True

    # Syncing

    def plan_flush(self, *, up_to: int | None = None) -> FlushPlan:
        up_to = self.end_offset if up_to is None else up_to
        # At the end of the log, even an empty segment counts: its name says what comes next.
        end = up_to + 1 if up_to == self.end_offset else up_to
        # From the one before, too: since it was synced it may have been sealed, and so cut.
        segments = self.segments.between(self.recovery_point - 1, end)
        return FlushPlan(
            directory=self.directory,
            batches=tuple(segment.file for segment in segments),
            by_name=tuple(path for segment in segments for path in segment.index_paths),
            snapshots=tuple(self._unsynced_snapshots),
            epochs=self.epochs,
            up_to=up_to,
            cut_count=len(self.cuts),
        )

    def flushed(self, plan: FlushPlan, *, now_ms: int) -> None:
        """``plan`` has run: what it covered needs no recovery, unless it was truncated since."""
        unsynced = self._unsynced_snapshots
        self._unsynced_snapshots = [path for path in unsynced if path not in plan.snapshots]
        covered = min([plan.up_to, *self.cuts[plan.cut_count :]])
        self.recovery_point = max(self.recovery_point, covered)
        self.last_flush_ms = now_ms

    def flush(self, *, now_ms: int) -> None:
        """All three steps at once, for whoever may sleep."""
        plan = self.plan_flush()
        plan.run()
        self.flushed(plan, now_ms=now_ms)

    def close(self, *, now_ms: int) -> None:
        """Sync everything and let go; what is opened next finds a clean log."""
        self.producers.take_snapshot()
        for segment in self.segments:
            segment.close()
        self.flush(now_ms=now_ms)
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files as they are: the directory has failed, or is to be removed."""
        for segment in self.segments:
            segment.abandon()

    def __repr__(self) -> str:
        return (
            f"Log({self.partition}, {self.start_offset} to {self.end_offset}, "
            f"{len(self.segments)} segments)"
        )


@lru_cache(maxsize=256)
def shape_of(settings: TopicSettings) -> SegmentShape:
    return SegmentShape(
        index_interval_bytes=settings.index_interval_bytes,
        index_bytes_max=settings.segment_index_bytes,
        preallocated_bytes=settings.segment_bytes if settings.preallocate else 0,
    )
