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

NOT_HEARD_OF = -1
#: Before anything that happens on the clock that is used here.
NEVER_MS = -(2**62)
#: The epoch of a broker whose fetches do not tell it.
NOT_TOLD = -1
#: How long a follower is left alone that the controller does not want in the set.  Kafka has it
#: proposed again by its next fetch, many times a second.
REFUSED_FOR_MS = 1_000


class Heard:
    """Of one session of a follower: when it last asked, and was answered as for all it wants."""

    __slots__ = ("asked_ms", "ms")

    def __init__(self, now_ms: int) -> None:
        self.asked_ms = self.ms = now_ms

    def gone_over(self) -> None:
        """Every partition has been noted, or was found as it had been."""
        self.ms = self.asked_ms


class Progress:
    """How far a follower has come, as its fetches tell."""

    __slots__ = (
        "at_end_ms",
        "broker_epoch",
        "end_offset",
        "fetched_ms",
        "heard",
        "leaders_end",
        "refused_until_ms",
        "start_offset",
    )

    def __init__(self, *, at_end_ms: int = NEVER_MS) -> None:
        """``at_end_ms``: one that was in sync when the leader came is given time."""
        self.end_offset = NOT_HEARD_OF
        self.start_offset = NOT_HEARD_OF
        #: When it was last known to have all that the leader had.
        self.at_end_ms = at_end_ms
        #: When it fetched last, and where the leader's log ended then.
        self.fetched_ms = NEVER_MS
        self.leaders_end = 0
        #: The session in which it was at the end when it was noted, and, as long as the log has not
        #: grown since, is so whenever that session asks.
        self.heard: Heard | None = None
        #: In which of its lives it fetched last (KIP-903).
        self.broker_epoch = NOT_TOLD
        #: Until when it is not proposed again.
        self.refused_until_ms = NEVER_MS

    def note(
        self,
        *,
        end_offset: int,
        start_offset: int,
        log_end: int,
        now_ms: int,
        heard: Heard | None = None,
    ) -> None:
        self.leave_session()
        if end_offset >= log_end:
            self.at_end_ms = max(self.at_end_ms, now_ms)
            self.heard = heard
        elif end_offset >= self.leaders_end:
            self.at_end_ms = max(self.at_end_ms, self.fetched_ms)
        self.end_offset, self.start_offset = end_offset, start_offset
        self.fetched_ms, self.leaders_end = now_ms, log_end

    def leave_session(self) -> None:
        """What its session tells from now on does not concern it."""
        if self.heard is not None:
            self.at_end_ms = self.last_at_end_ms
            self.fetched_ms = max(self.fetched_ms, self.heard.ms)
            self.heard = None

    @property
    def last_at_end_ms(self) -> int:
        return self.at_end_ms if self.heard is None else max(self.at_end_ms, self.heard.ms)

    def keeps_up(self, log_end: int, *, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset == log_end or now_ms - self.last_at_end_ms <= lag_max_ms


class LeaderRole:
    """One broker's time as the leader, from one leader epoch to the next."""

    __slots__ = (
        "epoch",
        "followers",
        "in_sync",
        "local_id",
        "proposed",
        "replicas",
        "start_offset",
    )

    def __init__(
        self,
        *,
        local_id: int,
        epoch: int,
        start_offset: int,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        now_ms: int = 0,
    ) -> None:
        """``start_offset`` is where the log ended when the epoch began."""
        self.local_id = local_id
        self.epoch = epoch
        self.start_offset = start_offset
        self.replicas = tuple(replicas)
        self.in_sync = frozenset(in_sync)
        #: What the controller has been asked to make of ``in_sync``, while it has not answered.
        self.proposed: frozenset[int] | None = None
        self.followers = {
            replica: Progress(at_end_ms=now_ms if replica in self.in_sync else NEVER_MS)
            for replica in self.replicas
            if replica != local_id
        }

    def take_over(self, newer: LeaderRole) -> None:
        """What the controller says of the same epoch; what is known of followers stays known."""
        self.in_sync, self.replicas, self.proposed = newer.in_sync, newer.replicas, None
        self.followers = {
            replica: self.followers.get(replica, progress)
            for replica, progress in newer.followers.items()
        }

    def note_follower(
        self,
        replica_id: int,
        *,
        end_offset: int,
        start_offset: int,
        log_end: int,
        now_ms: int,
        heard: Heard | None = None,
    ) -> bool:
        """What a follower's fetch has told; whether its start has moved."""
        progress = self.followers.get(replica_id)
        if progress is None:
            progress = self.followers[replica_id] = Progress()
        has_moved = progress.start_offset != start_offset
        progress.note(
            end_offset=end_offset,
            start_offset=start_offset,
            log_end=log_end,
            now_ms=now_ms,
            heard=heard,
        )
        return has_moved

    def lowest_start(self, log_start: int, *, is_alive: Callable[[int], bool]) -> int:
        """Where the first of all replicas begins; -1 if one that is alive has not told yet."""
        starts = [at.start_offset for each, at in self.followers.items() if is_alive(each)]
        return min([log_start, *starts])

    def replicated_up_to(
        self,
        log_end: int,
        *,
        wanted: int = 1,
        now_ms: int = 0,
        lag_max_ms: int = 0,
        is_eligible: Callable[[int], bool] = lambda _: True,
    ) -> int | None:
        """How far all have come that are in sync, or about to be.

        None if one is not heard of, or fewer than ``wanted`` are in sync.
        """
        if not self.has_in_sync(wanted):
            return None
        lowest = log_end
        members = self.in_sync if self.proposed is None else self.in_sync | self.proposed
        for replica, progress in self.followers.items():
            if replica in members:
                lowest = min(lowest, progress.end_offset)
            elif 0 <= progress.end_offset < lowest:
                # One that is gone will not be in sync, however lately it was at the end.
                keeps_up = progress.keeps_up(log_end, now_ms=now_ms, lag_max_ms=lag_max_ms)
                if keeps_up and is_eligible(replica):
                    lowest = progress.end_offset
        return lowest if lowest >= 0 else None

    def has_in_sync(self, wanted: int) -> bool:
        """Whether so many are in sync, or all there are: more than those are never wanted."""
        return len(self.in_sync) >= min(wanted, len(self.replicas))

    # Who is in sync?  None, if nothing is to be proposed.

    def broker_epoch_of(self, replica_id: int) -> int:
        """In which a follower has come as far as is known of it."""
        progress = self.followers.get(replica_id)
        return NOT_TOLD if progress is None else progress.broker_epoch

    def refused(self, in_sync: frozenset[int], *, now_ms: int) -> None:
        """The controller does not agree, most likely because of those who would be new in it."""
        self.proposed = None
        for replica in in_sync - self.in_sync:
            if replica in self.followers:
                self.followers[replica].refused_until_ms = now_ms + REFUSED_FOR_MS

    def grown(
        self, replica_id: int, *, high_watermark: int, now_ms: int = 0
    ) -> frozenset[int] | None:
        """With a follower that has caught up."""
        if self.proposed is not None or replica_id in self.in_sync:
            return None
        progress = self.followers.get(replica_id)
        if (
            progress is None
            or replica_id not in self.replicas
            or now_ms < progress.refused_until_ms
        ):
            return None
        is_fit = progress.end_offset >= max(high_watermark, self.start_offset)
        return self.in_sync | {replica_id} if is_fit else None

    def shrunk(self, log_end: int, *, now_ms: int, lag_max_ms: int) -> frozenset[int] | None:
        """Without those that have fallen behind."""
        if self.proposed is not None:
            return None
        behind = {
            replica
            for replica, progress in self.followers.items()
            if replica in self.in_sync
            and not progress.keeps_up(log_end, now_ms=now_ms, lag_max_ms=lag_max_ms)
        }
        return self.in_sync - behind if behind else None
