"""Decides the transitions of a transaction.  The functions are pure, and may reject the request.

    decide_*(transaction, request) -> the metadata to write, or None if nothing changes

The results are Kafka's, and depend on the ``transaction.version`` of the client.  Below version 2 a
producer keeps its epoch, and a repeated request to end a transaction gets the same result again.
From version 2 on every end of a transaction bumps the epoch (KIP-890), so that no delayed batch
gets into a later transaction.  A retry is recognised by the previous epoch.

``has_pending_transition`` says that another transition of the same id is being written.  Clients of
version 2 get CONCURRENT_TRANSACTIONS for this, and while markers are being written, before any
other check: they may already know the producer id that comes next.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

from odradek.broker.transactions.transaction_state import (
    COMPLETED_OR_EMPTY,
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NOT_STARTED,
    PREPARED,
    TV_2,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from odradek.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)
from odradek.protocol.types import TopicPartition


class EndTransactionRequest(NamedTuple):
    """A request to end a transaction."""

    producer: ProducerIdAndEpoch
    is_commit: bool
    #: The ``transaction.version`` of the client.
    client_transaction_version: int

    @property
    def bumps_epoch(self) -> bool:
        return self.client_transaction_version >= TV_2


# Initialization of a producer


def decide_init(
    txn: TransactionMetadata,
    expected: ProducerIdAndEpoch | None,
    *,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: int | None,
) -> TransactionMetadata:
    """Bump the epoch, or use ``new_producer_id`` if the epochs are exhausted.

    The caller has to fence an open transaction first.
    """
    check_can_init(txn, expected)
    changes: dict[str, Any] = {
        "timeout_ms": timeout_ms,
        "updated_ms": now_ms,
        "started_ms": NOT_STARTED,
        "partitions": frozenset(),
    }
    if txn.is_epoch_exhausted and (expected is None or expected.epoch == txn.producer_epoch):
        if new_producer_id is None:
            raise ConcurrentTransactions("another request has just exhausted the epochs")
        last_epoch = NO_PRODUCER_EPOCH if expected is None else txn.producer_epoch
        return txn.prepare_transition_to(
            TransactionState.EMPTY,
            producer_id=new_producer_id,
            producer_epoch=0,
            last_producer_epoch=last_epoch,
            **changes,
        )
    epoch, last_epoch = _next_epoch(txn, expected)
    return txn.prepare_transition_to(
        TransactionState.EMPTY, producer_epoch=epoch, last_producer_epoch=last_epoch, **changes
    )


def check_can_init(
    txn: TransactionMetadata,
    expected: ProducerIdAndEpoch | None,
    *,
    has_pending_transition: bool = False,
) -> None:
    """Reject a request while markers are being written, or of a fenced producer (KIP-360)."""
    if has_pending_transition:
        raise ConcurrentTransactions()
    if expected is not None and not _is_valid_producer_id(txn, expected):
        raise ProducerFenced(f"{expected} is not the current producer {txn.producer}")
    if txn.state in PREPARED:
        raise ConcurrentTransactions("the last transaction is not complete yet")
    _check_not_transient(txn)


def _is_valid_producer_id(txn: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    is_new = txn.producer_epoch == NO_PRODUCER_EPOCH
    is_previous = (
        expected.id == txn.previous_producer_id and expected.epoch >= MAX_PRODUCER_EPOCH - 1
    )
    return is_new or expected.id == txn.producer_id or is_previous


def _next_epoch(txn: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
    """Return the next epoch, and the last one if the producer may use it to retry."""
    current = txn.producer_epoch
    if expected is None:
        return current + 1, NO_PRODUCER_EPOCH
    if current in (NO_PRODUCER_EPOCH, expected.epoch):
        return current + 1, current
    if expected.epoch == txn.last_producer_epoch and current < MAX_PRODUCER_EPOCH:
        return current, txn.last_producer_epoch
    raise ProducerFenced(f"epoch {expected.epoch} is not the current epoch {current}")


def decide_fence(
    txn: TransactionMetadata, *, transaction_version: int, now_ms: int
) -> TransactionMetadata:
    """Abort the open transaction, in an epoch that its producer does not have."""
    fenced = txn.prepare_transition_to(
        TransactionState.PREPARE_EPOCH_FENCE,
        producer_epoch=min(txn.producer_epoch + 1, MAX_PRODUCER_EPOCH),
    )
    keeps_last = transaction_version >= TV_2
    return fenced.prepare_transition_to(
        TransactionState.PREPARE_ABORT,
        last_producer_epoch=txn.producer_epoch if keeps_last else NO_PRODUCER_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        updated_ms=now_ms,
        client_transaction_version=transaction_version,
    )


# Partitions of a transaction


def decide_add_partitions(
    txn: TransactionMetadata | None,
    producer: ProducerIdAndEpoch,
    added: Set[TopicPartition],
    *,
    client_transaction_version: int,
    now_ms: int,
    has_pending_transition: bool = False,
) -> TransactionMetadata | None:
    is_busy = has_pending_transition or (txn is not None and txn.state in PREPARED)
    if is_busy and client_transaction_version >= TV_2:
        raise ConcurrentTransactions()
    txn = _check_producer_id_mapping(txn, producer)
    if producer.epoch != txn.producer_epoch:
        raise ProducerFenced(
            f"epoch {producer.epoch} is not the current epoch {txn.producer_epoch}"
        )
    if is_busy:
        raise ConcurrentTransactions()
    _check_not_transient(txn)
    is_ongoing = txn.state is TransactionState.ONGOING
    if is_ongoing and added <= txn.partitions:
        return None
    return txn.prepare_transition_to(
        TransactionState.ONGOING,
        partitions=txn.partitions | added,
        started_ms=txn.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        client_transaction_version=client_transaction_version,
    )


def check_can_verify(
    txn: TransactionMetadata | None, producer: ProducerIdAndEpoch
) -> TransactionMetadata:
    """Return the transaction whose partitions a broker may verify."""
    txn = _check_producer_id_mapping(txn, producer)
    if producer.epoch != txn.producer_epoch:
        raise ProducerFenced(
            f"epoch {producer.epoch} is not the current epoch {txn.producer_epoch}"
        )
    if txn.state in PREPARED:
        raise ConcurrentTransactions()
    return txn


# End of a transaction


def decide_end(
    txn: TransactionMetadata | None,
    request: EndTransactionRequest,
    *,
    now_ms: int,
    new_producer_id: int | None,
    has_pending_transition: bool = False,
) -> TransactionMetadata | None:
    """Return None if the transaction has already ended as requested."""
    if request.bumps_epoch:
        return _decide_end_with_epoch_bump(
            txn, request, now_ms, new_producer_id, has_pending_transition
        )
    txn = _check_producer_id_mapping(txn, request.producer)
    if request.producer.epoch != txn.producer_epoch:
        raise ProducerFenced(
            f"epoch {request.producer.epoch} is not the current epoch {txn.producer_epoch}"
        )
    if has_pending_transition or txn.state in PREPARED:
        raise ConcurrentTransactions()
    _check_not_transient(txn)
    if txn.state is TransactionState.ONGOING:
        return txn.prepare_transition_to(
            _prepare_state(request),
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
            client_transaction_version=request.client_transaction_version,
        )
    if txn.state is _complete_state(request):
        return None
    raise InvalidTxnState(
        f"cannot go from {txn.state.display_name} to {_prepare_state(request).display_name}"
    )


def _decide_end_with_epoch_bump(
    txn: TransactionMetadata | None,
    request: EndTransactionRequest,
    now_ms: int,
    new_producer_id: int | None,
    has_pending_transition: bool,
) -> TransactionMetadata | None:
    if txn is None:
        raise InvalidProducerIdMapping()
    if has_pending_transition or txn.state in PREPARED:
        raise ConcurrentTransactions()
    epoch, is_retry = request.producer.epoch, _is_retry(txn, request.producer)
    if request.producer.id != txn.producer_id and not is_retry:
        raise InvalidProducerIdMapping(
            f"producer id {request.producer.id} is not the current one {txn.producer_id}"
        )
    is_valid_retry = is_retry and txn.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    if epoch != txn.producer_epoch and not is_valid_retry:
        raise ProducerFenced(f"epoch {epoch} is not the current epoch {txn.producer_epoch}")
    _check_not_transient(txn)
    if is_valid_retry and txn.state is _complete_state(request):
        return None
    # A transaction that was never begun may be aborted: its records add the partitions, so the
    # producer cannot know whether it has begun (KIP-890).  A retry must not change the outcome.
    may_end = txn.state is TransactionState.ONGOING or not (request.is_commit or is_valid_retry)
    if not may_end:
        raise InvalidTxnState(
            f"cannot go from {txn.state.display_name} to {_prepare_state(request).display_name}"
        )
    return _prepare_commit_or_abort(txn, request, now_ms, new_producer_id)


def _is_retry(txn: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Return whether the producer has the previous epoch because the last response was lost.

    Only an end that bumped the epoch may be repeated with the epoch before it.  If the last end was
    requested in an older version, that epoch belongs to a producer that the current one has fenced.

    A value of version 0 in the log, or a Kafka broker, loses the next producer id.  Then the last
    possible epoch remains, which no producer gets: the producer is fenced and begins with a new id.
    """
    if txn.client_transaction_version < TV_2:
        return False
    if producer.id == txn.producer_id:
        return producer.epoch + 1 == txn.producer_epoch < MAX_PRODUCER_EPOCH
    is_previous = producer.id == txn.previous_producer_id
    return is_previous and producer.epoch == MAX_PRODUCER_EPOCH - 1 and txn.producer_epoch == 0


def _prepare_commit_or_abort(
    txn: TransactionMetadata,
    request: EndTransactionRequest,
    now_ms: int,
    new_producer_id: int | None,
) -> TransactionMetadata:
    if txn.is_epoch_exhausted and new_producer_id is None:
        raise ConcurrentTransactions("another request has just exhausted the epochs")
    return txn.prepare_transition_to(
        _prepare_state(request),
        producer_epoch=min(txn.producer_epoch + 1, MAX_PRODUCER_EPOCH),
        last_producer_epoch=txn.producer_epoch,
        next_producer_id=new_producer_id if txn.is_epoch_exhausted else NO_PRODUCER_ID,
        started_ms=txn.started_ms if txn.state is TransactionState.ONGOING else now_ms,
        updated_ms=now_ms,
        client_transaction_version=request.client_transaction_version,
    )


def decide_complete(txn: TransactionMetadata, *, now_ms: int) -> TransactionMetadata:
    """Complete the transaction: every partition has its marker."""
    state = TransactionState.COMPLETE_COMMIT if txn.is_commit else TransactionState.COMPLETE_ABORT
    rotated: dict[str, int] = {}
    if txn.next_producer_id != NO_PRODUCER_ID:
        rotated = {"producer_id": txn.next_producer_id, "producer_epoch": 0}
    return txn.prepare_transition_to(
        state,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
        **rotated,
    )


# Timeout and expiration


def is_timed_out(txn: TransactionMetadata, *, now_ms: int) -> bool:
    return txn.state is TransactionState.ONGOING and txn.started_ms + txn.timeout_ms < now_ms


def is_expired(txn: TransactionMetadata, *, expiration_ms: int, now_ms: int) -> bool:
    return txn.state in COMPLETED_OR_EMPTY and txn.updated_ms <= now_ms - expiration_ms


# Shared checks


def _check_producer_id_mapping(
    txn: TransactionMetadata | None, producer: ProducerIdAndEpoch
) -> TransactionMetadata:
    if txn is None or txn.producer_id != producer.id:
        raise InvalidProducerIdMapping(
            f"producer id {producer.id} does not have this transactional id"
        )
    return txn


def _check_not_transient(txn: TransactionMetadata) -> None:
    """Reject transient states, which neither this broker nor Kafka writes to the log."""
    if txn.state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise KafkaError(f"unexpected transient state in the log: {txn}")


def _prepare_state(request: EndTransactionRequest) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT


def _complete_state(request: EndTransactionRequest) -> TransactionState:
    return (
        TransactionState.COMPLETE_COMMIT if request.is_commit else TransactionState.COMPLETE_ABORT
    )
