"""The state of a partition's leader: the ISR and the progress of each follower.

The high watermark is the lowest log end offset in the ISR, including the leader's own.  Every
replica that may become the next leader has all records before it.  A follower that is about to join
the ISR counts already: the leader has proposed it (Kafka: maximal ISR), or it was caught up
recently and will be proposed soon.  While the ISR is smaller than ``min.insync.replicas``, the
high watermark does not advance, as in Kafka since KIP-966: consumers do not read records of acks=1
before other replicas have them.

    caught up          its fetch offset reached the leader's log end offset: the present one, or,
                       since producers append meanwhile, the one at its previous fetch
    in sync            it was caught up within ``replica.lag.time.max.ms``
    eligible to join   its log end offset is at least the high watermark and at least the start
                       offset of the leader epoch

A follower fetches all its partitions many times a second, and is caught up in most of them.  The
time of such a fetch is therefore recorded once for its session (``FollowerFetchState``), not in
each partition.

Times are monotonic.  A jump of the wall clock would put all followers out of sync, or none.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

UNKNOWN_OFFSET = -1
#: Earlier than any time of the monotonic clock.
NEVER_MS = -(2**62)
#: The epoch of a broker whose fetches do not carry one.
UNKNOWN_BROKER_EPOCH = -1
#: How long a follower that the controller rejected is not proposed.  In Kafka its next fetch
#: proposes it again, many times a second.
INELIGIBLE_BACKOFF_MS = 1_000


class FollowerFetchState:
    """The times of the last request and of the last complete fetch in a follower's session."""

    __slots__ = ("last_completed_ms", "last_request_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_request_ms = self.last_completed_ms = now_ms

    def mark_completed(self) -> None:
        """Mark the last request complete: every partition was updated or was unchanged."""
        self.last_completed_ms = self.last_request_ms


class ReplicaState:
    """The progress of a follower, according to its fetches.  Kafka: Replica, ReplicaState."""

    __slots__ = (
        "broker_epoch",
        "caught_up_time_ms",
        "follower_fetch_state",
        "ineligible_until_ms",
        "last_fetch_leader_log_end_offset",
        "last_fetch_time_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, caught_up_time_ms: int = NEVER_MS) -> None:
        """``caught_up_time_ms`` gives a follower that is in the initial ISR time to fetch."""
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        #: When it was last known to have all records of the leader.
        self.caught_up_time_ms = caught_up_time_ms
        #: The time of its last fetch, and the leader's log end offset at that time.
        self.last_fetch_time_ms = NEVER_MS
        self.last_fetch_leader_log_end_offset = 0
        #: The session in which it was last caught up.  While the log does not grow, it is caught up
        #: at every fetch of that session.
        self.follower_fetch_state: FollowerFetchState | None = None
        #: The broker epoch of its last fetch (KIP-903).
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        #: It is not proposed for the ISR before this time.
        self.ineligible_until_ms = NEVER_MS

    def update_fetch_state(
        self,
        *,
        fetch_offset: int,
        follower_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        follower_fetch_state: FollowerFetchState | None = None,
    ) -> None:
        self.leave_session()
        if fetch_offset >= leader_end_offset:
            self.caught_up_time_ms = max(self.caught_up_time_ms, now_ms)
            self.follower_fetch_state = follower_fetch_state
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            self.caught_up_time_ms = max(self.caught_up_time_ms, self.last_fetch_time_ms)
        self.log_end_offset, self.log_start_offset = fetch_offset, follower_start_offset
        self.last_fetch_time_ms, self.last_fetch_leader_log_end_offset = now_ms, leader_end_offset

    def leave_session(self) -> None:
        """Detach from the session: its later fetches do not count for this partition."""
        if self.follower_fetch_state is not None:
            self.caught_up_time_ms = self.last_caught_up_time_ms
            self.last_fetch_time_ms = max(
                self.last_fetch_time_ms, self.follower_fetch_state.last_completed_ms
            )
            self.follower_fetch_state = None

    @property
    def last_caught_up_time_ms(self) -> int:
        return (
            self.caught_up_time_ms
            if self.follower_fetch_state is None
            else max(self.caught_up_time_ms, self.follower_fetch_state.last_completed_ms)
        )

    def is_caught_up(self, leader_end_offset: int, *, now_ms: int, lag_max_ms: int) -> bool:
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_time_ms <= lag_max_ms
        )


class LeaderState:
    """The state of this broker as the leader in one leader epoch."""

    __slots__ = (
        "epoch",
        "followers",
        "isr",
        "leader_epoch_start_offset",
        "local_broker_id",
        "pending_isr",
        "replicas",
    )

    def __init__(
        self,
        *,
        local_broker_id: int,
        epoch: int,
        leader_epoch_start_offset: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        now_ms: int = 0,
    ) -> None:
        """``leader_epoch_start_offset`` is the log end offset at the start of the epoch."""
        self.local_broker_id = local_broker_id
        self.epoch = epoch
        self.leader_epoch_start_offset = leader_epoch_start_offset
        self.replicas = tuple(replicas)
        self.isr = frozenset(isr)
        #: The ISR that is proposed to the controller, until the controller responds.
        self.pending_isr: frozenset[int] | None = None
        self.followers = {
            replica: ReplicaState(caught_up_time_ms=now_ms if replica in self.isr else NEVER_MS)
            for replica in self.replicas
            if replica != local_broker_id
        }

    def update_from(self, newer: LeaderState) -> None:
        """Take the ISR and replicas of the same epoch; keep the progress of known followers."""
        self.isr, self.replicas, self.pending_isr = newer.isr, newer.replicas, None
        self.followers = {
            replica: self.followers.get(replica, replica_state)
            for replica, replica_state in newer.followers.items()
        }

    def update_follower_fetch_state(
        self,
        replica_id: int,
        *,
        fetch_offset: int,
        follower_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        follower_fetch_state: FollowerFetchState | None = None,
    ) -> bool:
        """Record a follower's fetch; return whether its log start offset has moved."""
        replica_state = self.followers.get(replica_id)
        if replica_state is None:
            replica_state = self.followers[replica_id] = ReplicaState()
        has_moved = replica_state.log_start_offset != follower_start_offset
        replica_state.update_fetch_state(
            fetch_offset=fetch_offset,
            follower_start_offset=follower_start_offset,
            leader_end_offset=leader_end_offset,
            now_ms=now_ms,
            follower_fetch_state=follower_fetch_state,
        )
        return has_moved

    def low_watermark(self, leader_start_offset: int, *, is_alive: Callable[[int], bool]) -> int:
        """Return the lowest log start offset; -1 if a live follower has not reported one yet."""
        starts = [
            replica_state.log_start_offset
            for replica, replica_state in self.followers.items()
            if is_alive(replica)
        ]
        return min([leader_start_offset, *starts])

    def compute_high_watermark(
        self,
        leader_end_offset: int,
        *,
        min_isr: int = 1,
        now_ms: int = 0,
        lag_max_ms: int = 0,
        is_eligible: Callable[[int], bool] = lambda _: True,
    ) -> int | None:
        """Return the lowest log end offset of the ISR and the followers about to join it.

        Returns None if one of them has not fetched yet, or the ISR is smaller than ``min_isr``.
        """
        if not self.has_min_isr(min_isr):
            return None
        lowest = leader_end_offset
        members = self.isr if self.pending_isr is None else self.isr | self.pending_isr
        for replica, replica_state in self.followers.items():
            if replica in members:
                lowest = min(lowest, replica_state.log_end_offset)
            elif 0 <= replica_state.log_end_offset < lowest:
                # An offline follower will not join the ISR, even if it was caught up recently.
                is_caught_up = replica_state.is_caught_up(
                    leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms
                )
                if is_caught_up and is_eligible(replica):
                    lowest = replica_state.log_end_offset
        return lowest if lowest >= 0 else None

    def has_min_isr(self, min_isr: int) -> bool:
        """Whether the ISR has ``min_isr`` members, or all replicas if there are fewer."""
        return len(self.isr) >= min(min_isr, len(self.replicas))

    # ISR changes: ``expanded_isr`` and ``shrunk_isr`` return None if there is nothing to propose.

    def broker_epoch_of(self, replica_id: int) -> int:
        """Return the broker epoch in which the follower made its known progress."""
        replica_state = self.followers.get(replica_id)
        return UNKNOWN_BROKER_EPOCH if replica_state is None else replica_state.broker_epoch

    def reject_pending_isr(self, isr: frozenset[int], *, now_ms: int) -> None:
        """The controller rejected ``isr``, most likely because of its new members."""
        self.pending_isr = None
        for replica in isr - self.isr:
            if replica in self.followers:
                self.followers[replica].ineligible_until_ms = now_ms + INELIGIBLE_BACKOFF_MS

    def expanded_isr(
        self, replica_id: int, *, high_watermark: int, now_ms: int = 0
    ) -> frozenset[int] | None:
        """Return the ISR with a follower that has caught up."""
        if self.pending_isr is not None or replica_id in self.isr:
            return None
        replica_state = self.followers.get(replica_id)
        if (
            replica_state is None
            or replica_id not in self.replicas
            or now_ms < replica_state.ineligible_until_ms
        ):
            return None
        has_caught_up = replica_state.log_end_offset >= max(
            high_watermark, self.leader_epoch_start_offset
        )
        return self.isr | {replica_id} if has_caught_up else None

    def shrunk_isr(
        self, leader_end_offset: int, *, now_ms: int, lag_max_ms: int
    ) -> frozenset[int] | None:
        """Return the ISR without the followers that have fallen behind."""
        if self.pending_isr is not None:
            return None
        behind = {
            replica
            for replica, replica_state in self.followers.items()
            if replica in self.isr
            and not replica_state.is_caught_up(
                leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms
            )
        }
        return self.isr - behind if behind else None
