"""Verification of the batches of a Produce request that begin a transaction (KIP-890).

The transaction coordinator verifies that the transaction is ongoing and contains the partition, or
adds the partition (broker/transactions/add_partitions_to_txn_manager.py).  A batch of a transaction
that is already open in its partition needs no verification, so each partition of a transaction is
verified once.

A marker may be appended between the verification and the append.  It removes the guards that were
created when the verification started, and the batch is rejected.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from struct import Struct

from odradek.broker.replicas.partition import Partition
from odradek.broker.transactions.add_partitions_to_txn_manager import (
    AddPartitionsToTxnManager,
    ClientCapabilities,
    PartitionErrors,
    TransactionIdentity,
    VerificationGuards,
    VerificationResult,
    verify_with_retries,
)
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerIdMapping, KafkaError
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_FLAG
from odradek.protocol.types import TopicPartition
from odradek.storage.producer_state.verification_guards import VerificationGuard

_CLIENT_CAPABILITIES = ClientCapabilities.by_versions(
    ProduceRequest.__schema__.versions.high, abortable_since=11, adds_since=12
)
#: Attributes, producer id, epoch and base sequence, from the position of the attributes on.
_PRODUCER_STRUCT = Struct(">h20xqhi")

#: Old producers may not treat these errors as retriable.  They are returned as an error that every
#: producer retries, without a search for another leader.
_RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


#: A partition in which a transaction would begin, and the sequence of its first batch.
PartitionAndSequence = tuple[Partition, int]


class NotVerified(KafkaError):
    """A batch was not appended because of its coordinator.  Clients get the message."""


class TransactionVerification:
    """The verification of the partitions of one request in which a transaction would begin."""

    __slots__ = ("_capabilities", "_errors", "_guards", "_now_ms", "_partitions", "_transaction")

    def __init__(
        self,
        transaction: TransactionIdentity,
        capabilities: ClientCapabilities,
        partitions: Sequence[PartitionAndSequence],
        now_ms: int,
    ) -> None:
        self._transaction = transaction
        self._capabilities = capabilities
        self._partitions = partitions
        self._now_ms = now_ms
        self._guards: VerificationGuards = {}
        self._errors: PartitionErrors = {}

    def start_verification(self) -> VerificationGuards:
        """Return a guard for each partition that needs verification."""
        guards = {}
        for partition, sequence in self._partitions:
            guard = partition.log.producer_state_manager.start_verification(
                self._transaction.producer_id,
                epoch=self._transaction.producer_epoch,
                sequence=sequence,
                now_ms=self._now_ms,
                supports_epoch_bump=self._capabilities.adds_partitions_on_write,
            )
            if guard is not None:
                guards[partition.topic_partition] = guard
        return guards

    def verify(
        self, add_partitions_to_txn_manager: AddPartitionsToTxnManager
    ) -> Callable[[], Awaitable[None]] | None:
        """Return None if the result is known, else a function to call and await."""
        result = verify_with_retries(
            self.start_verification,
            lambda partitions: add_partitions_to_txn_manager.add_or_verify_transaction(
                self._transaction, partitions, self._capabilities
            ),
        )
        if not isinstance(result, tuple):
            return partial(self._complete, result)
        self._guards, self._errors = result
        return None

    async def _complete(self, verify: Callable[[], Awaitable[VerificationResult]]) -> None:
        self._guards, self._errors = await verify()

    def verification_guard(self, topic_partition: TopicPartition) -> VerificationGuard | None:
        """Return the guard that an append must present, if any; raises the error for the client."""
        error = self._errors.get(topic_partition)
        if error is not None:
            raise _to_client_error(error, self._capabilities)
        return self._guards.get(topic_partition)


def create_verification(
    transactional_id: str,
    batches: Iterable[tuple[Partition, memoryview]],
    *,
    version: int,
    now_ms: int,
) -> TransactionVerification | None:
    """Return None if no partition needs verification.  Raises InvalidProducerIdMapping."""
    capabilities = _CLIENT_CAPABILITIES[version]
    producer: tuple[int, int] | None = None
    partitions: list[PartitionAndSequence] = []
    for partition, records in batches:
        if len(records) < HEADER_BYTES:
            continue  # not a valid batch: the append returns the error
        attributes, producer_id, epoch, sequence = _PRODUCER_STRUCT.unpack_from(
            records, ATTRIBUTES_POSITION
        )
        if producer_id < 0 or not attributes & TRANSACTIONAL_FLAG:
            continue
        if producer not in (None, (producer_id, epoch)):
            raise InvalidProducerIdMapping(
                "Transactional records contained more than one producer ID"
            )
        producer = producer_id, epoch
        states = partition.log.producer_state_manager
        needs_verification = (
            capabilities.adds_partitions_on_write
            or states.settings.transaction_partition_verification_enable
        )
        if needs_verification and not states.has_open_transaction(producer_id, epoch=epoch):
            partitions.append((partition, sequence))
    if producer is None or not partitions:
        return None
    transaction = TransactionIdentity(transactional_id, *producer)
    return TransactionVerification(transaction, capabilities, partitions, now_ms)


def _to_client_error(error: ErrorCode, capabilities: ClientCapabilities) -> KafkaError:
    if error is ErrorCode.INVALID_TXN_STATE:
        return NotVerified("Partition was not added to the transaction", error_code=error)
    is_retriable = error in _RETRIABLE_ERRORS or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and not capabilities.adds_partitions_on_write
    )
    if is_retriable:
        message = (
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error.name}"
        )
        return NotVerified(message, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    return KafkaError(error_code=error)
