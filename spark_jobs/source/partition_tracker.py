"""How far can each partition be read?  Asked again and again, while a broker writes.

Up to the high watermark, but not beyond the end of the log, which may have lost what was written
down to be there; at read_committed, up to the last stable offset.  What was learned of transactions
and of the log's end is kept, so that each look reads no more than what has been written since the
one before.

Owner: the driver's process of one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from odradek.spark_jobs.scan.catalog import PartitionLog, Segment, partition_logs
from odradek.spark_jobs.scan.lookup import log_end_offset
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.plan import follows_transactions, undisturbed
from odradek.spark_jobs.scan.transactions import Transactions, follow, transactions

Key = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Reach:
    """A partition as it was at the last look."""

    log: PartitionLog
    end_offset: int  # nothing from there on can be read yet
    log_end_offset: int  # whatever the high watermark says
    known: Transactions = field(default_factory=Transactions)


@dataclass(slots=True)
class _Followed:
    known: Transactions
    end_offset: int  # up to where they have been followed


@dataclass(frozen=True, slots=True)
class _LogEnd:
    last: Segment | None  # of its segments
    offset: int

    def is_enough_for(self, last: Segment | None, high_watermark: int | None) -> bool:
        if last is None or self.last is None or high_watermark is None:
            return False
        is_longer = (last.path, last.size_bytes) >= (self.last.path, self.last.size_bytes)
        return is_longer and self.offset >= high_watermark


class Tails:
    """Of the partitions that the options select, of whatever topics there are by then."""

    def __init__(self, options: Options) -> None:
        # What is named may go while the stream runs, and whoever looks is told of it otherwise.
        self._options = replace(options, fail_on_data_loss=False)
        self._followed: dict[Key, _Followed] = {}
        self._log_ends: dict[Key, _LogEnd] = {}

    def look(self) -> dict[Key, Reach]:
        return undisturbed(self._look)

    def forget_before(self, offsets: dict[Key, int]) -> None:
        """No record before these is asked for any more."""
        for key, followed in self._followed.items():
            offset = offsets.get(key, 0)
            aborted = followed.known.aborted
            followed.known.aborted = {each for each in aborted if each.last_offset >= offset}

    def _look(self) -> dict[Key, Reach]:
        reaches = {
            (log.topic, log.partition): self._reach(log) for log in partition_logs(self._options)
        }
        # A topic that was deleted and is created again begins anew.
        for gone in self._log_ends.keys() - reaches.keys():
            self._log_ends.pop(gone)
            self._followed.pop(gone, None)
        return reaches

    def _reach(self, log: PartitionLog) -> Reach:
        log_end = end_offset = self._log_end(log)
        if log.high_watermark is not None:
            end_offset = min(log.high_watermark, log_end)
        if not follows_transactions(self._options):
            return Reach(log, end_offset, log_end)
        key = (log.topic, log.partition)
        followed = self._followed.get(key)
        if followed is None or followed.end_offset > end_offset:
            followed = self._followed[key] = _Followed(transactions(log), end_offset)
        elif followed.end_offset < end_offset:
            follow(log, followed.known, start_offset=followed.end_offset, bound=end_offset)
            followed.end_offset = end_offset
        stable_offset = followed.known.last_stable_offset(end_offset)
        return Reach(log, stable_offset, log_end, followed.known)

    def _log_end(self, log: PartitionLog) -> int:
        """As it was, if that is far enough and the log has not become shorter."""
        key, last = (log.topic, log.partition), log.segments[-1] if log.segments else None
        known = self._log_ends.get(key)
        if known is None or not known.is_enough_for(last, log.high_watermark):
            known = self._log_ends[key] = _LogEnd(last, log_end_offset(log))
        return known.offset
