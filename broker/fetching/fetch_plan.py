"""How many bytes of which partition go into the answer to a fetch, and when is that enough?

Partitions are read in the order in which they are wanted, each up to its own limit and to what is
left of the limit of the whole.  So that nobody is stuck before a large batch, the first partition
that has records yields at least one whole batch, however large; a later one yields none rather
than part of one.  Versions up to 2 have hard limits instead: a batch may be cut anywhere.

An answer is due at once if nothing is to be waited for, if it has enough bytes, if a partition has
an error or a diverging epoch or is better read elsewhere, or if the log goes on in another segment
than the one that was read.  Else it waits until one of its partitions stirs, and all are looked
at again.

What nobody knows (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) is no reason to answer at once,
unless all that is wanted is of that kind: a client would ask again and again.

While it waits, and when it is told nothing, it holds no file open: a session lasts for longer, and
segments that are deleted meanwhile would keep their place on the disk.

Idle sessions: a partition in which there was nothing to read, and which is as it was when the
client was last told of it, is passed over after comparing a few numbers.  A follower is noted to
have asked for it by its session alone (leader.py).

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from odradek.broker.fetching.fetch_session import Line, Wanted
from odradek.broker.fetching.partition_reading import NOTHING, UNKNOWN, PartitionReading
from odradek.broker.replicas.leader import Heard, LeaderRole
from odradek.broker.replicas.waiter import Stir, Waiter, leave, stand
from odradek.broker.turns import FEW, Turn
from odradek.protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition


class FetchPlan:
    """The partitions of one fetch, read once, or again and again until there is enough."""

    __slots__ = (
        "_has_news",
        "_heard",
        "_is_first_pass",
        "_reading",
        "_size_bytes",
        "_unknown",
        "_wanted",
        "found",
        "is_large",
    )

    def __init__(
        self, reading: PartitionReading, wanted: list[Wanted], heard: Heard | None = None
    ) -> None:
        """``heard`` is of the session that a follower has."""
        self._heard = heard
        self._reading = reading
        self._wanted = wanted
        #: Whether it has to be, or was, read in turns.
        self.is_large = len(wanted) > FEW
        self._unknown: list[Wanted] = []
        self._is_first_pass = True
        self._size_bytes = 0
        self._has_news = False
        #: Each with its line, as of the last ``read``; those that are passed over are not here.
        self.found: list[Wanted] = []

    @property
    def has_records(self) -> bool:
        return self._size_bytes > 0

    def is_enough(self) -> bool:
        """Whether what was read is worth an answer."""
        return (
            self._has_news
            or self._size_bytes >= self._reading.terms.min_bytes
            or not self._wanted
            or any(self._reading.goes_on_elsewhere(wanted) for wanted in self.found)
        )

    async def wait_until_enough(self, timeout_s: float) -> None:
        """Or until the time is over; what there is then is ``found``.  For many (FetchWait)."""
        stir, is_late, is_over = Stir(), False, False

        def expire() -> None:
            nonlocal is_late
            is_late = True
            stir.wake()

        timer, places = asyncio.get_running_loop().call_later(timeout_s, expire), self.places()
        stand(stir, places)
        try:
            while not is_over:
                # Once it is watched: something may have been appended since it was last read.
                await self.read_in_turns()
                is_over = is_late or self.is_enough()
                if not is_over:
                    self.forget()
                    await stir.next()
        finally:
            timer.cancel()
            leave(stir, places)
            if not is_over:
                self.forget()

    def places(self) -> list[set[Waiter]]:
        """Where to stand, to be woken whenever there may be more."""
        partitions = [each.partition for each in self._wanted if each.partition is not None]
        if self._reading.terms.is_follower:
            return [each.waiting_followers for each in partitions]
        return [each.waiting for each in partitions]

    def forget(self) -> None:
        """What was read: it is read again, or nobody is told."""
        for wanted in self._wanted:
            wanted.line = None

    def read(self) -> None:
        """Go over all partitions once."""
        for _ in self._going_over():
            pass

    async def read_in_turns(self) -> None:
        """The same, for many."""
        self.is_large = True
        turn = Turn()
        for _ in self._going_over():
            if turn.is_over:
                await turn.next()
        self.forget_gone()

    def forget_gone(self) -> None:
        """Another request of the session, which should not have come, may have forgotten some."""
        self.found = [wanted for wanted in self.found if wanted.line is not None]

    def _going_over(self) -> Iterator[None]:
        """One partition after the other; what is found stands at the end."""
        terms = self._reading.terms
        left_bytes, at_least_one = terms.max_bytes, not terms.has_hard_limits
        found: list[Wanted] = []
        size_bytes, has_news = 0, False
        for wanted in self._stirring():
            line = self._line_of(wanted, left_bytes, at_least_one=at_least_one)
            yield
            if line is None:
                self._unknown.append(wanted)
                continue
            wanted.line = line
            found.append(wanted)
            if line.records:
                at_least_one = False
                size_bytes += len(line.records)
                left_bytes = max(0, left_bytes - len(line.records))
            elif (
                line.error_code
                or line.diverging_epoch.epoch >= 0
                or line.preferred_read_replica >= 0
            ):
                has_news = True
                left_bytes = max(0, left_bytes)  # a limit below none spoils the first only
        if self._is_first_pass and self._unknown:
            self._set_unknown_aside()
        if self._is_first_pass and self._heard is not None:
            self._heard.gone_over()
        self._is_first_pass = False
        self._size_bytes, self._has_news = size_bytes, has_news
        self.found = found + self._unknown

    def _stirring(self) -> list[Wanted]:
        """Without those of which there is nothing new."""
        if self._reading.terms.is_follower:
            return [wanted for wanted in self._wanted if self._stirs_follower(wanted)]
        is_committed = self._reading.terms.is_committed
        # The last stable offset moves only when the high watermark does.
        return [
            wanted
            for wanted in self._wanted
            if wanted.role is None
            or wanted.is_committed is not is_committed
            or wanted.partition is None
            or wanted.partition.leader is not wanted.role
            or (log := wanted.partition.hosted.log).high_watermark != wanted.told_high_watermark
            or log.start_offset != wanted.told_start_offset
        ]

    def _stirs_follower(self, wanted: Wanted) -> bool:
        """At first that it has come to ask is news by itself, unless it has and had all."""
        role, partition = wanted.role, wanted.partition
        if role is None or partition is None or partition.leader is not role:
            return True
        log = partition.hosted.log
        return (
            log.end_offset != wanted.asked.fetch_offset
            or log.high_watermark != wanted.told_high_watermark
            or log.start_offset != wanted.told_start_offset
            or (self._is_first_pass and not self._tells_nothing(wanted, role))
        )

    def _tells_nothing(self, wanted: Wanted, role: LeaderRole) -> bool:
        heard = self._heard
        return heard is not None and self._reading.tells_nothing(wanted, role, heard)

    def _line_of(self, wanted: Wanted, left_bytes: int, *, at_least_one: bool) -> Line | None:
        """None if nobody knows the partition."""
        reading = self._reading
        try:
            line = reading.line_of(wanted, left_bytes, at_least_one=at_least_one)
            if self._is_first_pass and reading.terms.is_follower:
                reading.note_follower(wanted, line, self._heard)
        except (UnknownTopicOrPartition, UnknownTopicId) as failure:
            line = reading.failed(wanted, failure)
            return None if self._is_first_pass else line
        except KafkaError as failure:
            return reading.failed(wanted, failure)
        return line

    def _set_unknown_aside(self) -> None:
        unknown = {id(wanted) for wanted in self._unknown}
        self._wanted = [wanted for wanted in self._wanted if id(wanted) not in unknown]
        for wanted in self._unknown:
            failure = UnknownTopicId if wanted.topic is None else UnknownTopicOrPartition
            wanted.line = Line(
                partition_index=wanted.asked.partition,
                error_code=failure.error.code,
                high_watermark=UNKNOWN,
                records=NOTHING,
            )
