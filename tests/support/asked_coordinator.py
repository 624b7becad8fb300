"""Who is asked about transactions, as a test says what it answers: in the place of a Verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odradek.broker.transactions.add_partitions_to_txn_manager import (
    ClientCapabilities,
    PartitionErrors,
    TransactionIdentity,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition


@dataclass
class AskedCoordinator:
    """``refusal`` is of every partition; ``meanwhile`` happens before the answer comes.

    With ``words``, it is the first of them, one for each question, as long as there are any.
    """

    refusal: ErrorCode | None = None
    words: list[ErrorCode | None] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None
    asked: list[tuple[TransactionIdentity, list[TopicPartition], ClientCapabilities]] = field(
        default_factory=list
    )

    async def add_or_verify_transaction(
        self,
        transaction: TransactionIdentity,
        partitions: Sequence[TopicPartition],
        knowledge: ClientCapabilities,
    ) -> PartitionErrors:
        self.asked.append((transaction, list(partitions), knowledge))
        self.meanwhile()
        refusal = self.words.pop(0) if self.words else self.refusal
        return {} if refusal is None else dict.fromkeys(partitions, refusal)


#: For what is in no transaction.
NOBODY_ASKED = AskedCoordinator()
