"""One partition on this broker: its role, its log, and who waits for it to grow.

What may be read ends for everyone somewhere else:

    followers         at the end of the log
    consumers         at the high watermark
    read_committed    at the last stable offset, before the first open transaction

Whoever waits stands in ``waiting`` until it goes, and looks again whenever it is woken: by a moved
watermark, a change of role, or the end of the partition.  Followers stand apart: they are woken by
an append, and watermarks are nothing to them.

Invariant: an append is in the log before anything is awaited, so appends keep their order.
Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.replicas.alone import Alone
from odradek.broker.replicas.leader import NOT_TOLD, Heard, LeaderRole, Progress
from odradek.broker.replicas.portion import Portion, aborted_in
from odradek.broker.replicas.waiter import Waiter, wake_all
from odradek.broker.replicas.watermark import Watermark
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.admission.checked_batch import CheckedBatch
from odradek.storage.log import Log, Written
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.producers.verification_guards import VerificationGuard

ALL_IN_SYNC = -1
NO_LEADER_EPOCH = -1


class InSync(Protocol):
    """Who has in-sync replicas changed, and knows for how long one may lag (in_sync.py)."""

    def now_ms(self) -> int: ...

    @property
    def lag_max_ms(self) -> int: ...

    def propose(self, partition: Partition, in_sync: frozenset[int], /) -> None: ...

    def is_eligible(self, replica_id: int, /) -> bool: ...


class Partition:
    """A partition that this broker leads or follows, its log in a directory that works."""

    def __init__(
        self,
        hosted: HostedLog,
        *,
        on_flush_due: Callable[[Partition], None],
        in_sync: InSync | None = None,
    ) -> None:
        self.use(hosted)
        self._in_sync: InSync = in_sync or Alone()
        self.topic_partition: TopicPartition = hosted.partition
        self.is_internal = hosted.partition.topic in INTERNAL_TOPICS
        self.leader: LeaderRole | None = None
        self.leader_id = -1
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.high_watermark = Watermark(hosted.log.high_watermark)
        #: How far the log is known to survive a power cut.
        self.synced = Watermark(hosted.log.recovery_point)
        self.waiting: set[Waiter] = set()
        self.waiting_followers: set[Waiter] = set()
        self._on_flush_due = on_flush_due

    def use(self, hosted: HostedLog) -> None:
        """This is its log from now on."""
        self.hosted = hosted
        hosted.on_flushed = self._flushed

    @property
    def topic_id(self) -> Uuid | None:
        return self.hosted.topic_id

    @property
    def log(self) -> Log:
        return self.hosted.log

    # Roles

    def lead(self, role: LeaderRole, *, partition_epoch: int) -> None:
        """As long as the controller says so."""
        self.leader_id, self.leader_epoch = role.local_id, role.epoch
        if self.leader is None:
            self._abandon(NotLeader(f"{self.topic_partition} has a new leader"))
            self.high_watermark.restart(self.log.high_watermark)
        if self.leader is None or self.leader.epoch != role.epoch:
            # Of one that led before, nothing was cut: who waits can wait on.
            self.leader, self.partition_epoch = role, partition_epoch
        elif partition_epoch >= self.partition_epoch:
            # Else the two have agreed on something since that was written.
            self.leader.take_over(role)
            self.partition_epoch = partition_epoch
        self._advance()
        self.wake()

    def follow(self, leader_id: int, *, leader_epoch: int, partition_epoch: int) -> None:
        self.leader, self.partition_epoch = None, partition_epoch
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self._abandon(NotLeader(f"{self.topic_partition} is led by {leader_id} now"))
        self.wake()

    def end(self, failure: KafkaError) -> None:
        """It is being deleted, moved away or offline."""
        self.leader = None
        self._abandon(failure)
        self.wake()

    def _abandon(self, failure: KafkaError) -> None:
        self.high_watermark.abandon(failure)
        self.synced.abandon(failure)

    def leading(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> LeaderRole:
        """The role; refused if it is another's, or if the client knows of another epoch."""
        self.check_epoch(current_leader_epoch)
        if self.leader is None:
            raise NotLeader(f"{self.topic_partition} is led by {self.leader_id}")
        return self.leader

    def check_epoch(self, current_leader_epoch: int) -> None:
        """What a client believes to be the leader's epoch, if it believes anything."""
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"{self.topic_partition} is in leader epoch {self.leader_epoch}, "
                f"{current_leader_epoch} is over"
            )
        raise UnknownLeaderEpoch(
            f"{self.topic_partition} is in leader epoch {self.leader_epoch} here, "
            f"{current_leader_epoch} is not known yet"
        )

    # Writing

    def append(
        self,
        records: memoryview | bytearray | CheckedBatch,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> Written:
        """Append as the leader; ``records`` are patched in place.

        What begins a transaction needs the ``guard`` that ``start_verification`` gave.
        """
        role = self.leader or self.leading()
        if acks == ALL_IN_SYNC:
            self._check_in_sync(role, NotEnoughReplicas)
        hosted = self.hosted
        if hosted.is_being_cut:
            raise NotLeader(f"{self.topic_partition} is not ready to be led yet")
        try:
            written = hosted.usable().append_as_leader(
                records, leader_epoch=role.epoch, now_ms=now_ms, origin=origin, guard=guard
            )
        except OSError as failure:
            raise hosted.failed(failure) from failure
        has_advanced = self._advance()
        if hosted.has_flush_due_by_count:
            self._on_flush_due(self)
        if has_advanced:
            wake_all(self.waiting)
        wake_all(self.waiting_followers)
        return written

    def _check_in_sync(
        self, role: LeaderRole, failure: type[NotEnoughReplicas | NotEnoughReplicasAfterAppend]
    ) -> None:
        wanted, in_sync = self.hosted.log.settings.min_insync_replicas, len(role.in_sync)
        if not role.has_in_sync(wanted):
            raise failure(f"{in_sync} of {wanted} replicas of {self.topic_partition} are in sync")

    def is_acknowledged(self, written: Written, *, acks: int) -> bool:
        """Whether the producer may be told at once."""
        after = written.last_offset + 1
        if self.hosted.has_flush_due_by_count and self.synced.value < after:
            return False
        return acks != ALL_IN_SYNC or self.high_watermark.value >= after

    async def wait_until_acknowledged(
        self, written: Written, *, acks: int, timeout_s: float
    ) -> None:
        """Until it is synced, if it must be, and replicated, if the producer wants that."""
        loop = asyncio.get_running_loop()
        after, deadline = written.last_offset + 1, loop.time() + timeout_s
        if self.hosted.has_flush_due_by_count:
            self._check_in_time(await self.synced.wait_for(after, timeout_s=timeout_s))
        if acks == ALL_IN_SYNC:
            self.leading()
            left_s = max(0.0, deadline - loop.time())
            self.check_replicated(
                written, await self.high_watermark.reached(after, timeout_s=left_s)
            )
        else:
            self._check_is_there(written)

    def replicated(
        self, written: Written, *, timeout_s: float
    ) -> asyncio.Future[Exception | None] | None:
        """When nothing else is waited for: brings what ``check_replicated`` is to look at."""
        if self.leader is None or self.hosted.has_flush_due_by_count:
            return None
        return self.high_watermark.reached(written.last_offset + 1, timeout_s=timeout_s)

    def check_replicated(self, written: Written, failure: Exception | None) -> None:
        """``failure`` is what the watermark brought instead."""
        if failure is not None and not isinstance(failure, TimeoutError):
            raise failure
        self._check_in_time(failure is None)
        self._check_in_sync(self.leading(), NotEnoughReplicasAfterAppend)
        self._check_is_there(written)

    def _check_is_there(self, written: Written) -> None:
        """Another may have led before it was waited for, and others' records be in its place."""
        epoch = self.log.epochs.epoch_of(written.last_offset)
        if written.leader_epoch is not None and epoch not in (None, written.leader_epoch):
            raise NotLeader(f"{self.topic_partition} was led by another meanwhile")

    def _check_in_time(self, is_reached: bool) -> None:
        if not is_reached:
            raise RequestTimedOut(f"{self.topic_partition} was not replicated or synced in time")

    def _flushed(self) -> None:
        """A sync has ended: one that was due here, or one of the schedule's."""
        if self.log.recovery_point > self.synced.value:
            self.synced.advance(self.log.recovery_point)
        # Who appended while it ran waits too, even if there are few of them now.
        is_due = self.hosted.has_flush_due_by_count or self.synced.is_awaited
        if is_due and self.hosted.is_usable:
            self._on_flush_due(self)

    def _advance(self) -> bool:
        """Move the high watermark to where all in sync have come; whether it has moved."""
        log = self.hosted.log
        reached = self._reached(wanted=log.settings.min_insync_replicas)
        if reached is None or reached <= log.high_watermark:
            return False
        log.advance_high_watermark(reached)
        self.high_watermark.advance(reached)
        return True

    def _reached(self, *, wanted: int) -> int | None:
        role, log = self.leader, self.hosted.log
        assert role is not None
        if len(role.replicas) == 1:
            return log.end_offset
        return role.replicated_up_to(
            log.end_offset,
            wanted=wanted,
            now_ms=self._in_sync.now_ms(),
            lag_max_ms=self._in_sync.lag_max_ms,
            is_eligible=self._in_sync.is_eligible,
        )

    def is_on_all_in_sync(self, end: int) -> bool:
        """Also while those are too few, and the watermark stands still: no other could lead."""
        if self.high_watermark.value >= end:
            return True
        reached = None if self.leader is None else self._reached(wanted=1)
        return reached is not None and reached >= end

    def follower_fetched(
        self,
        replica_id: int,
        *,
        offset: int,
        start_offset: int,
        broker_epoch: int = NOT_TOLD,
        heard: Heard | None = None,
    ) -> Progress:
        """A follower has all before ``offset``, and nothing before ``start_offset`` any more."""
        role, log = self.leading(), self.hosted.log
        before, now_ms = log.high_watermark, self._in_sync.now_ms()
        has_moved = role.note_follower(
            replica_id,
            end_offset=offset,
            start_offset=start_offset,
            log_end=log.end_offset,
            now_ms=now_ms,
            heard=heard,
        )
        progress = role.followers[replica_id]
        progress.broker_epoch = broker_epoch
        grown = role.grown(replica_id, high_watermark=before, now_ms=now_ms)
        if grown is not None and self._in_sync.is_eligible(replica_id):
            role.proposed = grown
            self._in_sync.propose(self, grown)
        if self._advance() or has_moved:
            wake_all(self.waiting)
        return progress

    def look_for_laggards(self) -> None:
        """Followers behind for too long are to be out; fewer than before may be wanted in sync."""
        role = self.leader
        if role is None:
            return
        if self._advance():
            wake_all(self.waiting)
        shrunk = role.shrunk(
            self.log.end_offset, now_ms=self._in_sync.now_ms(), lag_max_ms=self._in_sync.lag_max_ms
        )
        if shrunk is not None:
            role.proposed = shrunk
            self._in_sync.propose(self, shrunk)

    def in_sync_changed(self, in_sync: Iterable[int], *, partition_epoch: int) -> None:
        """The controller has agreed to what was proposed, or to something else."""
        role = self.leading()
        role.in_sync, role.proposed = frozenset(in_sync), None
        self.partition_epoch = partition_epoch
        self._advance()
        self.wake()

    # Following

    def append_as_follower(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        high_watermark: int,
        start_offset: int,
        now_ms: int,
    ) -> None:
        """Take over what the leader of this epoch has sent, and what it says of its log."""
        with self.hosted as log:
            if records:
                log.append_as_follower(records, leader_epoch=leader_epoch, now_ms=now_ms)
            reached = min(high_watermark, log.end_offset)
            if reached > log.high_watermark:
                log.advance_high_watermark(reached)
                self.high_watermark.advance(reached)
            if start_offset > log.start_offset:
                log.advance_start(min(start_offset, log.high_watermark))
        if self.hosted.has_flush_due_by_count:
            self._on_flush_due(self)
        self.wake()

    def cut(self) -> None:
        """The log has been cut, and may end before its watermarks."""
        self._abandon(NotLeader(f"{self.topic_partition} is led by {self.leader_id}"))
        self.high_watermark.restart(self.log.high_watermark)
        self.synced.restart(min(self.synced.value, self.log.recovery_point))
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        wake_all(self.waiting)
        wake_all(self.waiting_followers)

    # Reading

    def readable_up_to(self, *, is_follower: bool, committed: bool) -> int:
        log = self.hosted.log
        if is_follower:
            return log.end_offset
        return log.last_stable_offset if committed else log.high_watermark

    def read(
        self, offset: int, *, max_bytes: int, up_to: int, committed: bool, at_least_one: bool
    ) -> Portion:
        """From ``offset`` on, nothing at or beyond ``up_to``."""
        with self.hosted as log:
            # What is read must not begin between the two: the client would be told of a gap.
            region = log.read(offset, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one)
            aborted = None
            if committed:
                aborted = aborted_in(log, offset, region, up_to)
            return Portion(
                region, log.high_watermark, log.last_stable_offset, log.start_offset, aborted
            )
