"""Which producers are being looked up at their transaction coordinator before they may begin?

A produce request may arrive after its transaction has been aborted.  Appended then, it would begin
a transaction that nobody ends (KIP-890).  So the first batch of a transaction is appended only
after the coordinator has been asked whether the transaction is open, and only if no marker has
come in the meantime:

    start    a guard is made, the producer's if it has one already; the coordinator is asked
    check    the append presents the guard; it must still be the producer's
    clear    the first batch of the transaction, or a marker, has been appended

A guard is equal to nothing but itself, so that an answer about one transaction is no answer about
the next of the same producer.

A producer that nothing is known of may begin at any sequence.  While its guard is out, that is none
higher than the lowest that asked for it: else a batch that has to ask again would find a later one
in its place and never get in.  If its epoch grows with each transaction, it begins each at sequence
0, in every partition; so anything else comes too late or too early.  Of a known producer one
sequence is the next, whoever asked: a lower one that waits is in the log already.

Who asks with an epoch that is over has no part in this: it would hold up whoever came after it.

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.protocol.errors import InvalidTxnState, OutOfOrderSequenceNumber
from odradek.protocol.records.record_set import AnyBatch
from odradek.protocol.types import TopicPartition


class VerificationGuard:
    """The right to begin one transaction, if the coordinator knows it."""

    __slots__ = ()


@dataclass(slots=True)
class _VerificationStateEntry:
    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    started_ms: int


class VerificationGuards:
    """The guards that are out, by producer id."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[int, _VerificationStateEntry] = {}

    def start(
        self, producer_id: int, *, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = _VerificationStateEntry(
                VerificationGuard(), epoch, sequence, supports_epoch_bump, now_ms
            )
            self.entries[producer_id] = entry
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
            entry.supports_epoch_bump = supports_epoch_bump
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)
        return entry.guard

    def check(
        self, guard: VerificationGuard | None, batch: AnyBatch, partition: TopicPartition
    ) -> None:
        """Refuse a batch that would begin a transaction without the producer's guard."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.guard is not guard:
            raise InvalidTxnState(
                f"Record of producer {batch.producer_id} in {partition} was not part of an "
                f"ongoing transaction: the transaction was not verified"
            )

    def check_first_sequence(self, batch: AnyBatch, partition: TopicPartition) -> None:
        """Of a producer that nothing is known of."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return
        if entry.supports_epoch_bump and batch.base_sequence != 0:
            raise OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {batch.producer_id} in {partition}: "
                f"{batch.base_sequence} (incoming sequence), but the first sequence must be 0"
            )
        if batch.base_sequence > entry.lowest_sequence:
            raise OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {batch.producer_id} in {partition}: "
                f"{batch.base_sequence} (incoming sequence), but sequence {entry.lowest_sequence} "
                f"is being verified and must be appended first"
            )

    def clear(self, producer_id: int) -> None:
        self.entries.pop(producer_id, None)

    def expire(self, *, started_until_ms: int) -> None:
        """Forget those that nobody came back for."""
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.started_ms > started_until_ms
        }
