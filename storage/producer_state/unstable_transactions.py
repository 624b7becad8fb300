"""The unstable transactions of a partition, which bound the last stable offset.

Kafka: ongoingTxns and unreplicatedTxns of ProducerStateManager.

A transaction is open from its first batch to its marker, and unstable until the high watermark has
passed the marker.  A completed transaction is dropped when one with a lower first offset completes:
that one also has the later marker, so it alone determines the first unstable offset.

Invariant: open transactions are sorted by first offset; completed ones are sorted by first offset
and also by last offset.
Owner: the event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class TxnMetadata(NamedTuple):
    """An open transaction.  It sorts by its first offset."""

    first_offset: int
    producer_id: int


class CompletedTxn(NamedTuple):
    """A completed transaction; ``last_offset`` is the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class UnstableTransactions:
    """The unstable transactions of one partition."""

    __slots__ = ("_open", "_unreplicated")

    def __init__(self, open_txns: Iterable[TxnMetadata] = ()) -> None:
        self._open = sorted(open_txns)
        self._unreplicated: list[CompletedTxn] = []

    @property
    def first_open(self) -> TxnMetadata | None:
        return self._open[0] if self._open else None

    @property
    def has_unreplicated(self) -> bool:
        """Whether a completed transaction has its marker above the high watermark."""
        return bool(self._unreplicated)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the first open transaction."""
        return self._open[0].first_offset if self._open else None

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the first transaction that is open, or not replicated yet."""
        if not self._unreplicated:
            return self._open[0].first_offset if self._open else None
        completed = self._unreplicated[0].first_offset
        return min(completed, self._open[0].first_offset) if self._open else completed

    def add_started(self, started_txns: Iterable[TxnMetadata]) -> None:
        """Add transactions that start after all others."""
        self._open += started_txns

    def last_stable_offset_for(self, completed_txn: CompletedTxn) -> int:
        """Return the last stable offset after this transaction is completed and replicated."""
        for other in self._open[:2]:
            if other.first_offset != completed_txn.first_offset:
                return min(other.first_offset, completed_txn.last_offset + 1)
        return completed_txn.last_offset + 1

    def complete(self, completed_txn: CompletedTxn) -> None:
        """Close a transaction.  It is unstable until the high watermark passes its marker."""
        slot = bisect_left(self._open, (completed_txn.first_offset,))
        assert self._open[slot].first_offset == completed_txn.first_offset, (self, completed_txn)
        del self._open[slot]
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1].first_offset > completed_txn.first_offset:
            unreplicated.pop()
        unreplicated.append(completed_txn)

    def on_high_watermark_updated(self, offset: int) -> None:
        """Drop the transactions whose markers are below the new high watermark."""
        unreplicated = self._unreplicated
        count = 0
        while count < len(unreplicated) and unreplicated[count].last_offset < offset:
            count += 1
        if count:
            del unreplicated[:count]
