"""The transactions of a partition that are not stable: what read_committed has to stop at.

A transaction is open from its first batch to its marker, and unstable until the high watermark has
passed the marker.  Of the unstable ones that have ended only those are kept which can still be the
first: one that began after a later-ending one began leaves before it, and never is.

Invariant: open transactions are in the order of their first offsets, ended ones in that of their
first and of their last offsets.
Owner: the event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class TxnMetadata(NamedTuple):
    """Open transactions sort by where they began."""

    first_offset: int
    producer_id: int


class CompletedTxn(NamedTuple):
    """``last_offset`` is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class UnstableTransactions:
    """Of one partition."""

    __slots__ = ("_open", "_unreplicated")

    def __init__(self, open_txns: Iterable[TxnMetadata] = ()) -> None:
        self._open = sorted(open_txns)
        self._unreplicated: list[CompletedTxn] = []

    @property
    def first_open(self) -> TxnMetadata | None:
        return self._open[0] if self._open else None

    @property
    def has_unreplicated(self) -> bool:
        """Whether any has ended, but not below the high watermark."""
        return bool(self._unreplicated)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the first transaction began that has not ended."""
        return self._open[0].first_offset if self._open else None

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction began that has not ended below the high watermark."""
        if not self._unreplicated:
            return self._open[0].first_offset if self._open else None
        completed = self._unreplicated[0].first_offset
        return min(completed, self._open[0].first_offset) if self._open else completed

    def add_started(self, started_txns: Iterable[TxnMetadata]) -> None:
        """They are the last ones."""
        self._open += started_txns

    def last_stable_offset_for(self, completed_txn: CompletedTxn) -> int:
        """What the last stable offset becomes when this transaction ends and is replicated."""
        for other in self._open[:2]:
            if other.first_offset != completed_txn.first_offset:
                return min(other.first_offset, completed_txn.last_offset + 1)
        return completed_txn.last_offset + 1

    def complete(self, completed_txn: CompletedTxn) -> None:
        """It is no longer open, but unstable until ``on_high_watermark`` passes its marker."""
        slot = bisect_left(self._open, (completed_txn.first_offset,))
        assert self._open[slot].first_offset == completed_txn.first_offset, (self, completed_txn)
        del self._open[slot]
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1].first_offset > completed_txn.first_offset:
            unreplicated.pop()
        unreplicated.append(completed_txn)

    def on_high_watermark_updated(self, offset: int) -> None:
        """Transactions whose markers lie below it have become stable."""
        unreplicated = self._unreplicated
        count = 0
        while count < len(unreplicated) and unreplicated[count].last_offset < offset:
            count += 1
        if count:
            del unreplicated[:count]
