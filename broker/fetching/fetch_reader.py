"""How many bytes of which partition go into the answer to a fetch, and when is that enough?

Partitions are read in the order in which they are wanted, each up to its own limit and to what is
left of the limit of the whole.  So that nobody is stuck before a large batch, the first partition
that has records yields at least one whole batch, however large; a later one yields none rather
than part of one.  Versions up to 2 have hard limits instead: a batch may be cut anywhere.

An answer is due at once if nothing is to be waited for, if it has enough bytes, if a partition has
an error or a diverging epoch or is better read elsewhere, or if the log goes on in another segment
than the one that was read.  Else it waits until one of its partitions stirs, and looks again.

What nobody knows (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) is no reason to answer at once,
unless all that is wanted is of that kind: a client would ask again and again.

While it waits, and when it is told nothing, it holds no file open: a session lasts for longer, and
segments that are deleted meanwhile would keep their place on the disk.

In a session, a partition in which there was nothing to read, and which is as it was when the client
was last told of it, is passed over, and not even looked at before it stirs (stirred_partitions.py).
A follower is noted to have asked for it by its session alone (leader.py).

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.fetching.partition_reading import NOTHING, UNKNOWN, PartitionReading
from odradek.broker.fetching.stirred_partitions import WantedPartitions
from odradek.broker.fetching.wanted import Line, Wanted
from odradek.broker.replicas.leader import Heard
from odradek.broker.turns import FEW, Turn
from odradek.protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition


class FetchPlan:
    """The partitions of one fetch, read once, or again and again until there is enough."""

    __slots__ = (
        "_due",
        "_has_news",
        "_heard",
        "_is_first_pass",
        "_reading",
        "_size_bytes",
        "_unknown",
        "found",
        "is_large",
        "wanted",
    )

    def __init__(
        self, reading: PartitionReading, wanted: WantedPartitions, heard: Heard | None = None
    ) -> None:
        """``heard`` is of the session that a follower has."""
        self._heard = heard
        self._reading = reading
        self.wanted = wanted
        #: What the first pass goes over; before each other one it is asked for again.
        self._due: list[Wanted] | None = wanted.due()
        #: Whether it has to be, or was, read in turns at first.
        self.is_large = len(self._due) > FEW
        self._unknown: dict[Wanted, None] = {}
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
            or len(self._unknown) == len(self.wanted)
            or any(self._reading.goes_on_elsewhere(wanted) for wanted in self.found)
        )

    def forget(self) -> None:
        """What was read: it is read again, or nobody is told."""
        for wanted in self.found:
            wanted.line = None

    def read(self) -> None:
        """Go over all that is due once."""
        for _ in self.going_over():
            pass

    async def read_in_turns(self) -> None:
        """The same, for many."""
        self.is_large = True
        turn = Turn()
        for _ in self.going_over():
            if turn.is_over:
                await turn.next()
        self.forget_gone()

    def forget_gone(self) -> None:
        """Another request of the session, which should not have come, may have forgotten some."""
        self.found = [wanted for wanted in self.found if wanted.line is not None]

    def going_over(self) -> Iterator[None]:
        """One partition after the other; what is found stands at the end."""
        terms = self._reading.terms
        left_bytes, at_least_one = terms.max_bytes, not terms.has_hard_limits
        self.found = found = []
        size_bytes, has_news = 0, False
        for wanted in self._next_due():
            yield
            if self._is_passed_over(wanted):
                continue
            line = self._line_of(wanted, left_bytes, at_least_one=at_least_one)
            if line is None:
                self._unknown[wanted] = None
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
        if self._is_first_pass and self._heard is not None:
            self._heard.gone_over()
        self._is_first_pass = False
        self._size_bytes, self._has_news = size_bytes, has_news
        self._tell_unknown()

    def _next_due(self) -> list[Wanted]:
        """Without what nobody knew at first."""
        due, self._due = self._due, None
        if due is not None:
            return due
        unknown = self._unknown
        return [wanted for wanted in self.wanted.due() if wanted not in unknown]

    def _is_passed_over(self, wanted: Wanted) -> bool:
        """Whether there is nothing new; if there cannot be before it stirs, it is quiet."""
        role, partition, terms = wanted.role, wanted.partition, self._reading.terms
        if role is None or partition is None or partition.leader is not role:
            return False
        log = partition.hosted.log
        if (
            log.high_watermark != wanted.told_high_watermark
            or log.start_offset != wanted.told_start_offset
        ):
            return False
        if not terms.is_follower:
            # The last stable offset moves only when the high watermark does.
            is_quiet = is_passed_over = wanted.is_committed is terms.is_committed
        elif log.end_offset == wanted.asked.fetch_offset:
            # At first that it has come to ask is news by itself, unless it has and had all.
            heard = self._heard
            is_quiet = heard is not None and self._reading.tells_nothing(wanted, role, heard)
            is_passed_over = is_quiet or not self._is_first_pass
        else:
            return False
        if is_quiet:
            self.wanted.pass_over(wanted)
        return is_passed_over

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

    def _tell_unknown(self) -> None:
        for wanted in self._unknown:
            failure = UnknownTopicId if wanted.topic is None else UnknownTopicOrPartition
            wanted.line = Line(
                partition_index=wanted.asked.partition,
                error_code=failure.error.code,
                high_watermark=UNKNOWN,
                records=NOTHING,
            )
        self.found += self._unknown
