"""Verification of transactions with the coordinator before their first batch is appended (KIP-890).

Kafka: VerificationStateEntry and VerificationGuard.

A produce request may arrive after its transaction was aborted.  If it were appended, it would start
a transaction that is never completed.  So the first batch of a transaction is appended only after
the coordinator has confirmed that the transaction is open, and only if no marker has arrived in the
meantime:

    start    return a new guard, or the producer's present one; the caller asks the coordinator
    check    the append passes in the guard, which must still be the producer's
    clear    the first batch of the transaction, or a marker, has been appended

A guard is equal only to itself.  So a response for one transaction does not verify the next one of
the same producer.

An unknown producer may start at any sequence.  While it has a guard, the first batch must not have
a sequence above the lowest one that requested verification.  Otherwise a batch that must be
verified again could find a later batch in the log and would never be accepted.  If the client bumps
its epoch with each transaction, it starts each at sequence 0 in every partition, so any other first
sequence is out of order.  For a known producer only the next sequence is valid, whichever request
was verified first: a lower sequence that is still being verified is already in the log.

A request with an old epoch does not change the entry, because it would delay the requests of the
new epoch.

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.protocol.errors import InvalidTxnState, OutOfOrderSequenceNumber
from odradek.protocol.records.record_set import AnyBatch
from odradek.protocol.types import TopicPartition


class VerificationGuard:
    """The permission to start one transaction, if the coordinator confirms it."""

    __slots__ = ()


@dataclass(slots=True)
class _VerificationStateEntry:
    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    started_ms: int


class VerificationGuards:
    """The guards of the producers that are being verified, by producer id."""

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
        """Reject a batch that would start a transaction without the producer's guard."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.guard is not guard:
            raise InvalidTxnState(
                f"Record of producer {batch.producer_id} in {partition} was not part of an "
                f"ongoing transaction: the transaction was not verified"
            )

    def check_first_sequence(self, batch: AnyBatch, partition: TopicPartition) -> None:
        """Check the first batch of an unknown producer."""
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
        """Drop the guards whose batch was never appended."""
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.started_ms > started_until_ms
        }
