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
class _Verification:
    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    bumps_epochs: bool
    started_ms: int


class VerificationGuards:
    """The guards that are out, by producer id."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out: dict[int, _Verification] = {}

    def start(
        self, producer_id: int, *, epoch: int, sequence: int, bumps_epochs: bool, now_ms: int
    ) -> VerificationGuard:
        known = self.out.get(producer_id)
        if known is None:
            known = _Verification(VerificationGuard(), epoch, sequence, bumps_epochs, now_ms)
            self.out[producer_id] = known
        elif epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, sequence
            known.bumps_epochs = bumps_epochs
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def check(
        self, guard: VerificationGuard | None, batch: AnyBatch, partition: TopicPartition
    ) -> None:
        """Refuse a batch that would begin a transaction without the producer's guard."""
        known = self.out.get(batch.producer_id)
        if known is None or known.guard is not guard:
            raise InvalidTxnState(
                f"producer {batch.producer_id} wrote to {partition} in a transaction that is not "
                f"known to be open"
            )

    def check_first_sequence(self, batch: AnyBatch, partition: TopicPartition) -> None:
        """Of a producer that nothing is known of."""
        known = self.out.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return
        if known.bumps_epochs and batch.base_sequence != 0:
            raise OutOfOrderSequenceNumber(
                f"producer {batch.producer_id} wrote to {partition} from sequence "
                f"{batch.base_sequence} on, but nothing before"
            )
        if batch.base_sequence > known.lowest_sequence:
            raise OutOfOrderSequenceNumber(
                f"producer {batch.producer_id} wrote to {partition} from sequence "
                f"{batch.base_sequence} on, but {known.lowest_sequence} waits to be let in before"
            )

    def clear(self, producer_id: int) -> None:
        self.out.pop(producer_id, None)

    def expire(self, *, started_until_ms: int) -> None:
        """Forget those that nobody came back for."""
        self.out = {
            producer_id: known
            for producer_id, known in self.out.items()
            if known.started_ms > started_until_ms
        }
