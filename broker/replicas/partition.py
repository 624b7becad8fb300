"""One partition on this broker: its role, its log and the requests that wait for it.

Kafka: kafka.cluster.Partition.

The end of the readable records depends on the reader:

    followers         the log end offset
    consumers         the high watermark
    read_committed    the last stable offset, before the first open transaction

A delayed fetch is registered in ``fetch_watchers`` until it completes.  It is notified, and checks
again, when the high watermark or the role changes, or the partition stops.  Followers register in
``follower_fetch_watchers``: an append notifies them, a new high watermark does not.

Invariant: an append is in the log before anything is awaited, so appends keep their order.
Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.replicas.awaitable_offset import AwaitableOffset
from odradek.broker.replicas.fetch_data_info import FetchDataInfo, collect_aborted_transactions
from odradek.broker.replicas.fetch_watcher import FetchWatcher, notify_all
from odradek.broker.replicas.leader_state import (
    UNKNOWN_BROKER_EPOCH,
    FollowerFetchState,
    LeaderState,
    ReplicaState,
)
from odradek.broker.replicas.single_replica_isr import SingleReplicaIsr
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.producer_state.verification_guards import VerificationGuard
from odradek.storage.unified_log import LogAppendInfo, UnifiedLog
from odradek.storage.validation.validated_batch import ValidatedBatch

ACKS_ALL = -1
NO_LEADER_EPOCH = -1


class IsrManager(Protocol):
    """Proposes ISR changes and knows the maximum lag; see alter_partition_manager.py."""

    def now_ms(self) -> int: ...

    @property
    def lag_max_ms(self) -> int: ...

    def submit(self, partition: Partition, isr: frozenset[int], /) -> None: ...

    def is_eligible(self, replica_id: int, /) -> bool: ...


class Partition:
    """A partition that this broker leads or follows, with a log in an online directory."""

    def __init__(
        self,
        hosted_log: HostedLog,
        *,
        on_flush_due: Callable[[Partition], None],
        isr_manager: IsrManager | None = None,
    ) -> None:
        self.set_log(hosted_log)
        self._isr_manager: IsrManager = isr_manager or SingleReplicaIsr()
        self.topic_partition: TopicPartition = hosted_log.partition
        self.is_internal = hosted_log.partition.topic in INTERNAL_TOPICS
        self.leader_state: LeaderState | None = None
        self.leader_id = -1
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.high_watermark = AwaitableOffset(hosted_log.log.high_watermark)
        #: The log up to this offset survives a power failure.
        self.flushed_offset = AwaitableOffset(hosted_log.log.recovery_point)
        self.fetch_watchers: set[FetchWatcher] = set()
        self.follower_fetch_watchers: set[FetchWatcher] = set()
        self._on_flush_due = on_flush_due

    def set_log(self, hosted_log: HostedLog) -> None:
        """Use ``hosted_log`` as the log of this partition from now on."""
        self.hosted_log = hosted_log
        hosted_log.on_flushed = self._on_flushed

    @property
    def topic_id(self) -> Uuid | None:
        return self.hosted_log.topic_id

    @property
    def log(self) -> UnifiedLog:
        return self.hosted_log.log

    # Roles

    def make_leader(self, leader_state: LeaderState, *, partition_epoch: int) -> None:
        """Lead the partition until the controller sends another role."""
        self.leader_id, self.leader_epoch = leader_state.local_broker_id, leader_state.epoch
        if self.leader_state is None:
            self._fail_waiters(NotLeaderOrFollower(f"{self.topic_partition} has a new leader"))
            self.high_watermark.reset(self.log.high_watermark)
        if self.leader_state is None or self.leader_state.epoch != leader_state.epoch:
            # A leader that stays leader has truncated nothing, so its waiters stay valid.
            self.leader_state, self.partition_epoch = leader_state, partition_epoch
        elif partition_epoch >= self.partition_epoch:
            # An older partition epoch is superseded by a later AlterPartition response.
            self.leader_state.update_from(leader_state)
            self.partition_epoch = partition_epoch
        self._maybe_increment_high_watermark()
        self.notify_watchers()

    def make_follower(self, leader_id: int, *, leader_epoch: int, partition_epoch: int) -> None:
        self.leader_state, self.partition_epoch = None, partition_epoch
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self._fail_waiters(NotLeaderOrFollower(f"{self.topic_partition} is led by {leader_id} now"))
        self.notify_watchers()

    def stop(self, error: KafkaError) -> None:
        """Stop serving: the partition is being deleted, was reassigned or is offline."""
        self.leader_state = None
        self._fail_waiters(error)
        self.notify_watchers()

    def _fail_waiters(self, error: KafkaError) -> None:
        self.high_watermark.fail_waiters(error)
        self.flushed_offset.fail_waiters(error)

    def require_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> LeaderState:
        """Return the leader state; raise if another broker leads or the epoch is not current."""
        self.check_current_leader_epoch(current_leader_epoch)
        if self.leader_state is None:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led by {self.leader_id}")
        return self.leader_state

    def check_current_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raise if the client's leader epoch, if it sent one, is not the current one."""
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"{self.topic_partition} has leader epoch {self.leader_epoch}; "
                f"the request has the older epoch {current_leader_epoch}"
            )
        raise UnknownLeaderEpoch(
            f"{self.topic_partition} has leader epoch {self.leader_epoch} here; "
            f"the request has the newer epoch {current_leader_epoch}"
        )

    # Writing

    def append(
        self,
        records: memoryview | bytearray | ValidatedBatch,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append as the leader; ``records`` are patched in place.

        The first batch of a transaction needs the ``verification_guard`` of ``start_verification``.
        """
        leader_state = self.leader_state or self.require_leader()
        if acks == ACKS_ALL:
            self._check_min_isr(leader_state, NotEnoughReplicas)
        hosted_log = self.hosted_log
        if hosted_log.is_truncating:
            raise NotLeaderOrFollower(f"{self.topic_partition} is still being truncated")
        try:
            append_info = hosted_log.get_usable_log().append_as_leader(
                records,
                leader_epoch=leader_state.epoch,
                now_ms=now_ms,
                origin=origin,
                guard=verification_guard,
            )
        except OSError as error:
            raise hosted_log.handle_os_error(error) from error
        has_advanced = self._maybe_increment_high_watermark()
        if hosted_log.has_flush_due_by_count:
            self._on_flush_due(self)
        if has_advanced:
            notify_all(self.fetch_watchers)
        notify_all(self.follower_fetch_watchers)
        return append_info

    def _check_min_isr(
        self,
        leader_state: LeaderState,
        error_class: type[NotEnoughReplicas | NotEnoughReplicasAfterAppend],
    ) -> None:
        min_isr, isr_size = self.hosted_log.log.settings.min_insync_replicas, len(leader_state.isr)
        if not leader_state.has_min_isr(min_isr):
            raise error_class(
                f"ISR size {isr_size} is below min.insync.replicas={min_isr} "
                f"for {self.topic_partition}"
            )

    def is_acknowledged(self, append_info: LogAppendInfo, *, acks: int) -> bool:
        """Whether the producer's response can be sent at once."""
        after = append_info.last_offset + 1
        if self.hosted_log.has_flush_due_by_count and self.flushed_offset.value < after:
            return False
        return acks != ACKS_ALL or self.high_watermark.value >= after

    async def wait_until_acknowledged(
        self, append_info: LogAppendInfo, *, acks: int, timeout_s: float
    ) -> None:
        """Wait for the flush, if one is due, and for the replication, if ``acks`` is all."""
        loop = asyncio.get_running_loop()
        after, deadline = append_info.last_offset + 1, loop.time() + timeout_s
        if self.hosted_log.has_flush_due_by_count:
            self._check_not_timed_out(
                await self.flushed_offset.wait_for(after, timeout_s=timeout_s)
            )
        if acks == ACKS_ALL:
            self.require_leader()
            remaining_s = max(0.0, deadline - loop.time())
            self.check_replicated(
                append_info, await self.high_watermark.future_for(after, timeout_s=remaining_s)
            )
        else:
            self._check_not_overwritten(append_info)

    def replication_future(
        self, append_info: LogAppendInfo, *, timeout_s: float
    ) -> asyncio.Future[Exception | None] | None:
        """Return a future for ``check_replicated``; None if a flush is due or this is no leader."""
        if self.leader_state is None or self.hosted_log.has_flush_due_by_count:
            return None
        return self.high_watermark.future_for(append_info.last_offset + 1, timeout_s=timeout_s)

    def check_replicated(self, append_info: LogAppendInfo, error: Exception | None) -> None:
        """Raise unless the append is replicated; ``error`` is the result of the future."""
        if error is not None and not isinstance(error, TimeoutError):
            raise error
        self._check_not_timed_out(error is None)
        self._check_min_isr(self.require_leader(), NotEnoughReplicasAfterAppend)
        self._check_not_overwritten(append_info)

    def _check_not_overwritten(self, append_info: LogAppendInfo) -> None:
        """Raise if another broker led before the wait and replaced the records."""
        epoch = self.log.leader_epoch_cache.epoch_for_offset(append_info.last_offset)
        if append_info.leader_epoch is not None and epoch not in (None, append_info.leader_epoch):
            raise NotLeaderOrFollower(f"{self.topic_partition} had another leader since the append")

    def _check_not_timed_out(self, is_reached: bool) -> None:
        if not is_reached:
            raise RequestTimedOut(f"{self.topic_partition} was not replicated or flushed in time")

    def _on_flushed(self) -> None:
        """Called after each flush, whether due by count or by schedule."""
        if self.log.recovery_point > self.flushed_offset.value:
            self.flushed_offset.advance(self.log.recovery_point)
        # Appends during the flush wait too, even if they are fewer than flush.messages.
        is_due = self.hosted_log.has_flush_due_by_count or self.flushed_offset.has_waiters
        if is_due and self.hosted_log.is_usable:
            self._on_flush_due(self)

    def _maybe_increment_high_watermark(self) -> bool:
        """Return whether the high watermark advanced.  Kafka: maybeIncrementLeaderHW."""
        log = self.hosted_log.log
        new_high_watermark = self._compute_high_watermark(min_isr=log.settings.min_insync_replicas)
        if new_high_watermark is None or new_high_watermark <= log.high_watermark:
            return False
        log.update_high_watermark(new_high_watermark)
        self.high_watermark.advance(new_high_watermark)
        return True

    def _compute_high_watermark(self, *, min_isr: int) -> int | None:
        leader_state, log = self.leader_state, self.hosted_log.log
        assert leader_state is not None
        if len(leader_state.replicas) == 1:
            return log.log_end_offset
        return leader_state.compute_high_watermark(
            log.log_end_offset,
            min_isr=min_isr,
            now_ms=self._isr_manager.now_ms(),
            lag_max_ms=self._isr_manager.lag_max_ms,
            is_eligible=self._isr_manager.is_eligible,
        )

    def is_replicated_to_isr(self, end_offset: int) -> bool:
        """Whether all in-sync replicas have the log up to ``end_offset``.

        The high watermark stands still while the ISR is smaller than ``min.insync.replicas``.  The
        ISR is compared then: records that all its members have survive the next election.
        """
        if self.high_watermark.value >= end_offset:
            return True
        high_watermark = (
            None if self.leader_state is None else self._compute_high_watermark(min_isr=1)
        )
        return high_watermark is not None and high_watermark >= end_offset

    def update_follower_fetch_state(
        self,
        replica_id: int,
        *,
        fetch_offset: int,
        follower_start_offset: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        follower_fetch_state: FollowerFetchState | None = None,
    ) -> ReplicaState:
        """Record a follower's fetch: its log end offset and its log start offset.

        Expands the ISR and advances the high watermark if possible.
        """
        leader_state, log = self.require_leader(), self.hosted_log.log
        before, now_ms = log.high_watermark, self._isr_manager.now_ms()
        is_progress = leader_state.update_follower_fetch_state(
            replica_id,
            fetch_offset=fetch_offset,
            follower_start_offset=follower_start_offset,
            leader_end_offset=log.log_end_offset,
            now_ms=now_ms,
            follower_fetch_state=follower_fetch_state,
        )
        replica_state = leader_state.followers[replica_id]
        replica_state.broker_epoch = broker_epoch
        expanded_isr = leader_state.expanded_isr(replica_id, high_watermark=before, now_ms=now_ms)
        if expanded_isr is not None and self._isr_manager.is_eligible(replica_id):
            leader_state.pending_isr = expanded_isr
            self._isr_manager.submit(self, expanded_isr)
        if self._maybe_increment_high_watermark() or is_progress:
            notify_all(self.fetch_watchers)
        return replica_state

    def maybe_shrink_isr(self) -> None:
        """Propose an ISR without followers that are behind for too long.  Kafka: maybeShrinkIsr.

        Also advances the high watermark, because ``min.insync.replicas`` may have been lowered.
        """
        leader_state = self.leader_state
        if leader_state is None:
            return
        if self._maybe_increment_high_watermark():
            notify_all(self.fetch_watchers)
        shrunk_isr = leader_state.shrunk_isr(
            self.log.log_end_offset,
            now_ms=self._isr_manager.now_ms(),
            lag_max_ms=self._isr_manager.lag_max_ms,
        )
        if shrunk_isr is not None:
            leader_state.pending_isr = shrunk_isr
            self._isr_manager.submit(self, shrunk_isr)

    def update_isr(self, isr: Iterable[int], *, partition_epoch: int) -> None:
        """Take the ISR that the controller decided, which may differ from the proposed one."""
        leader_state = self.require_leader()
        leader_state.isr, leader_state.pending_isr = frozenset(isr), None
        self.partition_epoch = partition_epoch
        self._maybe_increment_high_watermark()
        self.notify_watchers()

    # Following

    def append_as_follower(
        self,
        records: memoryview | bytearray,
        *,
        leader_epoch: int,
        leader_high_watermark: int,
        leader_log_start_offset: int,
        now_ms: int,
    ) -> None:
        """Append the leader's records; follow its high watermark and log start offset."""
        with self.hosted_log as log:
            if records:
                log.append_as_follower(records, leader_epoch=leader_epoch, now_ms=now_ms)
            new_high_watermark = min(leader_high_watermark, log.log_end_offset)
            if new_high_watermark > log.high_watermark:
                log.update_high_watermark(new_high_watermark)
                self.high_watermark.advance(new_high_watermark)
            if leader_log_start_offset > log.log_start_offset:
                log.maybe_increment_log_start_offset(
                    min(leader_log_start_offset, log.high_watermark)
                )
        if self.hosted_log.has_flush_due_by_count:
            self._on_flush_due(self)
        self.notify_watchers()

    def on_truncated(self) -> None:
        """Called after a truncation: the log may end before the high watermark."""
        self._fail_waiters(
            NotLeaderOrFollower(f"{self.topic_partition} is led by {self.leader_id}")
        )
        self.high_watermark.reset(self.log.high_watermark)
        self.flushed_offset.reset(min(self.flushed_offset.value, self.log.recovery_point))
        self.notify_watchers()

    def notify_watchers(self) -> None:
        """Notify all delayed fetches of consumers and followers."""
        notify_all(self.fetch_watchers)
        notify_all(self.follower_fetch_watchers)

    # Reading

    def readable_end_offset(self, *, is_follower: bool, is_read_committed: bool) -> int:
        log = self.hosted_log.log
        if is_follower:
            return log.log_end_offset
        return log.last_stable_offset if is_read_committed else log.high_watermark

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        up_to: int,
        is_read_committed: bool,
        at_least_one: bool,
    ) -> FetchDataInfo:
        """Read from ``offset`` up to ``up_to``, exclusive."""
        with self.hosted_log as log:
            # Nothing is awaited here: records, aborted transactions and offsets must come from the
            # same state of the log, or the client would see a gap.
            region = log.read(
                offset, max_bytes=max_bytes, max_offset=up_to, at_least_one=at_least_one
            )
            aborted = None
            if is_read_committed:
                aborted = collect_aborted_transactions(log, offset, region, up_to)
            return FetchDataInfo(
                region, log.high_watermark, log.last_stable_offset, log.log_start_offset, aborted
            )
