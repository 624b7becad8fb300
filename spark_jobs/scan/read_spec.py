"""The columns and offsets to read from the batches of one segment.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from odradek.storage.transaction_index import AbortedTxn


class AbortedTransactions:
    """The aborted transactions, which a reader at read_committed does not see."""

    def __init__(self, transactions: Iterable[AbortedTxn]) -> None:
        self._ranges_by_producer: dict[int, tuple[list[int], list[int]]] = {}
        for transaction in sorted(transactions, key=lambda txn: txn.first_offset):
            firsts, lasts = self._ranges_by_producer.setdefault(transaction.producer_id, ([], []))
            firsts.append(transaction.first_offset)
            lasts.append(transaction.last_offset)

    def contains(self, producer_id: int, offset: int) -> bool:
        firsts, lasts = self._ranges_by_producer.get(producer_id, ((), ()))
        index = bisect_right(firsts, offset) - 1
        return index >= 0 and offset <= lasts[index]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """``aborted`` is None at read_uncommitted."""

    topic: str
    partition: int
    segment: str
    columns: tuple[str, ...]
    start_offset: int
    end_offset: int
    include_control: bool = False
    aborted: AbortedTransactions | None = None
