"""The batches of a Produce request that begin a transaction in their partition (KIP-890).

Their producer's coordinator is asked whether the transaction is open and the partition in it, or to
add it (broker/transactions/verification.py).  What is in an open transaction already needs nobody's
word, so that this is asked once for each partition of a transaction.

Between the question and the append a marker may come.  It takes the guards away that were made when
the question was asked, and the batch is refused.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from struct import Struct

from odradek.broker.replicas.partition import Partition
from odradek.broker.transactions.verification import (
    ClaimedTransaction,
    Guards,
    Knowledge,
    Refusals,
    Verified,
    Verifier,
    verified,
)
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerIdMapping, KafkaError
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_FLAG
from odradek.protocol.types import TopicPartition
from odradek.storage.producers.verification_guards import VerificationGuard

_KNOWLEDGE = Knowledge.by_versions(
    ProduceRequest.__schema__.versions.high, abortable_since=11, adds_since=12
)
#: Attributes, producer id, epoch and base sequence, from the position of the attributes on.
_PRODUCER = Struct(">h20xqhi")

#: Errors that old producers may not know to be passing are told as one that they do know, and for
#: which they do not look for another leader.
_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


#: Where a transaction would begin, and from which sequence on.
Place = tuple[Partition, int]


class NotVerified(KafkaError):
    """A batch that was not appended because of what its coordinator said; told with these words."""


class Verification:
    """Of the partitions of one request in which a transaction would begin."""

    __slots__ = ("_guards", "_knowledge", "_now_ms", "_places", "_refusals", "_transaction")

    def __init__(
        self,
        transaction: ClaimedTransaction,
        knowledge: Knowledge,
        places: Sequence[Place],
        now_ms: int,
    ) -> None:
        self._transaction = transaction
        self._knowledge = knowledge
        self._places = places
        self._now_ms = now_ms
        self._guards: Guards = {}
        self._refusals: Refusals = {}

    def begin(self) -> Guards:
        """None, if nobody has to be asked."""
        guards = {}
        for partition, sequence in self._places:
            guard = partition.log.producers.start_verification(
                self._transaction.producer_id,
                epoch=self._transaction.producer_epoch,
                sequence=sequence,
                now_ms=self._now_ms,
                bumps_epochs=self._knowledge.adds,
            )
            if guard is not None:
                guards[partition.topic_partition] = guard
        return guards

    def ask(self, verifier: Verifier) -> Callable[[], Awaitable[None]] | None:
        """None, if the answer is there; else what is to be called and awaited."""
        known = verified(
            self.begin,
            lambda partitions: verifier.ask(self._transaction, partitions, self._knowledge),
        )
        if not isinstance(known, tuple):
            return partial(self._wait, known)
        self._guards, self._refusals = known
        return None

    async def _wait(self, later: Callable[[], Awaitable[Verified]]) -> None:
        self._guards, self._refusals = await later()

    def guard(self, partition: TopicPartition) -> VerificationGuard | None:
        """What an append there has to present, if anything; raises what the client is told."""
        error = self._refusals.get(partition)
        if error is not None:
            raise _told(error, self._knowledge)
        return self._guards.get(partition)


def verification_of(
    transactional_id: str,
    batches: Iterable[tuple[Partition, memoryview]],
    *,
    version: int,
    now_ms: int,
) -> Verification | None:
    """None if nobody has to be asked.  Raises InvalidProducerIdMapping."""
    knowledge = _KNOWLEDGE[version]
    producer: tuple[int, int] | None = None
    places: list[Place] = []
    for partition, records in batches:
        if len(records) < HEADER_BYTES:
            continue  # no batch of a producer: which is told when it is appended
        attributes, producer_id, epoch, sequence = _PRODUCER.unpack_from(
            records, ATTRIBUTES_POSITION
        )
        if producer_id < 0 or not attributes & TRANSACTIONAL_FLAG:
            continue
        if producer not in (None, (producer_id, epoch)):
            raise InvalidProducerIdMapping("Transactional records of more than one producer.")
        producer = producer_id, epoch
        states = partition.log.producers
        is_asked = knowledge.adds or states.settings.transaction_partition_verification_enable
        if is_asked and not states.has_open_transaction(producer_id, epoch=epoch):
            places.append((partition, sequence))
    if producer is None or not places:
        return None
    transaction = ClaimedTransaction(transactional_id, *producer)
    return Verification(transaction, knowledge, places, now_ms)


def _told(error: ErrorCode, knowledge: Knowledge) -> KafkaError:
    if error is ErrorCode.INVALID_TXN_STATE:
        return NotVerified("Partition was not added to the transaction", error=error)
    is_passing = error in _PASSING or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and not knowledge.adds
    )
    if is_passing:
        message = (
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error.name}"
        )
        return NotVerified(message, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    return KafkaError(error=error)
