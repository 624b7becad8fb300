"""What is wanted of the batches of one segment.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from odradek.storage.transaction_index import AbortedTransaction


class Aborted:
    """The aborted transactions that a reader at read_committed does not see."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._of_producer: dict[int, tuple[list[int], list[int]]] = {}
        for each in sorted(transactions, key=lambda aborted: aborted.first_offset):
            firsts, lasts = self._of_producer.setdefault(each.producer_id, ([], []))
            firsts.append(each.first_offset)
            lasts.append(each.last_offset)

    def hides(self, producer_id: int, offset: int) -> bool:
        firsts, lasts = self._of_producer.get(producer_id, ((), ()))
        at = bisect_right(firsts, offset) - 1
        return at >= 0 and offset <= lasts[at]


@dataclass(frozen=True, slots=True)
class Wishes:
    """``aborted`` is None at read_uncommitted."""

    topic: str
    partition: int
    segment: str
    columns: tuple[str, ...]
    start_offset: int
    end_offset: int
    include_control: bool = False
    aborted: Aborted | None = None
