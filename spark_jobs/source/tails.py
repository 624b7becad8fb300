"""How far can each partition be read?  Asked again and again, while a broker writes.

Up to the high watermark, or the end of a log of which it is not known; at read_committed, up to the
last stable offset.  What was learned of transactions is kept, so that each look reads no more than
what has been written since the one before.

Owner: the driver's process of one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.spark_jobs.scan.catalog import PartitionLog, partition_logs
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
    known: Transactions = field(default_factory=Transactions)


@dataclass(slots=True)
class _Followed:
    known: Transactions
    end_offset: int  # up to where they have been followed


class Tails:
    """Of the partitions that the options select, of whatever topics there are by then."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._followed: dict[Key, _Followed] = {}

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
        self._followed = {key: each for key, each in self._followed.items() if key in reaches}
        return reaches

    def _reach(self, log: PartitionLog) -> Reach:
        end_offset = log_end_offset(log) if log.high_watermark is None else log.high_watermark
        if not follows_transactions(self._options):
            return Reach(log, end_offset)
        key = (log.topic, log.partition)
        followed = self._followed.get(key)
        if followed is None or followed.end_offset > end_offset:
            followed = self._followed[key] = _Followed(transactions(log), end_offset)
        elif followed.end_offset < end_offset:
            follow(log, followed.known, start_offset=followed.end_offset, bound=end_offset)
            followed.end_offset = end_offset
        return Reach(log, followed.known.last_stable_offset(end_offset), followed.known)
