"""What the leader of a partition knows beside its log: who is in sync, and how far each has come.

The high watermark is the lowest log end in the in-sync set, the leader's own among them: what lies
before it is on every replica that may lead next.  A follower that is about to be in the set counts
already: one that the leader has proposed, and one that has lately been at the end of the log, for
which it is only a matter of time.  While fewer than ``min.insync.replicas`` are in sync, it stands
still, as in Kafka since KIP-966: what acks=1 writes then is not read before others have it.

    at the end         its fetch asked for what lies behind the last record; or, since the leader is
                       written to meanwhile, for what did so when it last fetched
    in sync            it has been at the end within ``replica.lag.time.max.ms``
    fit to be          it has all before the high watermark, and the leader's first record

A follower asks for all of its partitions many times a second, and mostly has all of them already.
So what it tells of those is noted once for its session (``Heard``), not in each of them.

Times are those of a clock that cannot be set: one that jumps would put all out of sync, or nobody.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

UNKNOWN_OFFSET = -1
#: Before anything that happens on the clock that is used here.
NEVER_MS = -(2**62)
#: The epoch of a broker whose fetches do not tell it.
UNKNOWN_BROKER_EPOCH = -1
#: How long a follower is left alone that the controller does not want in the set.  Kafka has it
#: proposed again by its next fetch, many times a second.
INELIGIBLE_BACKOFF_MS = 1_000


class FollowerFetchState:
    """Of one session of a follower: when it last asked, and was answered as for all it wants."""

    __slots__ = ("last_completed_ms", "last_request_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_request_ms = self.last_completed_ms = now_ms

    def mark_completed(self) -> None:
        """Every partition has been noted, or was found as it had been."""
        self.last_completed_ms = self.last_request_ms


class ReplicaState:
    """How far a follower has come, as its fetches tell."""

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
        """``at_end_ms``: one that was in sync when the leader came is given time."""
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        #: When it was last known to have all that the leader had.
        self.caught_up_time_ms = caught_up_time_ms
        #: When it fetched last, and where the leader's log ended then.
        self.last_fetch_time_ms = NEVER_MS
        self.last_fetch_leader_log_end_offset = 0
        #: The session in which it was at the end when it was noted, and, as long as the log has not
        #: grown since, is so whenever that session asks.
        self.follower_fetch_state: FollowerFetchState | None = None
        #: In which of its lives it fetched last (KIP-903).
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        #: Until when it is not proposed again.
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
        """What its session tells from now on does not concern it."""
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
    """One broker's time as the leader, from one leader epoch to the next."""

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
        """``start_offset`` is where the log ended when the epoch began."""
        self.local_broker_id = local_broker_id
        self.epoch = epoch
        self.leader_epoch_start_offset = leader_epoch_start_offset
        self.replicas = tuple(replicas)
        self.isr = frozenset(isr)
        #: What the controller has been asked to make of ``in_sync``, while it has not answered.
        self.pending_isr: frozenset[int] | None = None
        self.followers = {
            replica: ReplicaState(caught_up_time_ms=now_ms if replica in self.isr else NEVER_MS)
            for replica in self.replicas
            if replica != local_broker_id
        }

    def update_from(self, newer: LeaderState) -> None:
        """What the controller says of the same epoch; what is known of followers stays known."""
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
        """What a follower's fetch has told; whether its start has moved."""
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
        """Where the first of all replicas begins; -1 if one that is alive has not told yet."""
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
        """How far all have come that are in sync, or about to be.

        None if one is not heard of, or fewer than ``wanted`` are in sync.
        """
        if not self.has_min_isr(min_isr):
            return None
        lowest = leader_end_offset
        members = self.isr if self.pending_isr is None else self.isr | self.pending_isr
        for replica, replica_state in self.followers.items():
            if replica in members:
                lowest = min(lowest, replica_state.log_end_offset)
            elif 0 <= replica_state.log_end_offset < lowest:
                # One that is gone will not be in sync, however lately it was at the end.
                is_caught_up = replica_state.is_caught_up(
                    leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms
                )
                if is_caught_up and is_eligible(replica):
                    lowest = replica_state.log_end_offset
        return lowest if lowest >= 0 else None

    def has_min_isr(self, min_isr: int) -> bool:
        """Whether so many are in sync, or all there are: more than those are never wanted."""
        return len(self.isr) >= min(min_isr, len(self.replicas))

    # Who is in sync?  None, if nothing is to be proposed.

    def broker_epoch_of(self, replica_id: int) -> int:
        """In which a follower has come as far as is known of it."""
        replica_state = self.followers.get(replica_id)
        return UNKNOWN_BROKER_EPOCH if replica_state is None else replica_state.broker_epoch

    def reject_pending_isr(self, isr: frozenset[int], *, now_ms: int) -> None:
        """The controller does not agree, most likely because of those who would be new in it."""
        self.pending_isr = None
        for replica in isr - self.isr:
            if replica in self.followers:
                self.followers[replica].ineligible_until_ms = now_ms + INELIGIBLE_BACKOFF_MS

    def expanded_isr(
        self, replica_id: int, *, high_watermark: int, now_ms: int = 0
    ) -> frozenset[int] | None:
        """With a follower that has caught up."""
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
        """Without those that have fallen behind."""
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
