"""What becomes of a transaction: pure decisions, each of which may refuse.

    decide_*(transaction, request) -> the transaction as it is to be written; None: as it is

The answers are Kafka's, and depend on what the client speaks.  Before transactions had epochs of
their own (``transaction.version`` below 2), a producer keeps its epoch, and whoever ends again what
is at its end is answered as before.  From 2 on every end begins the next epoch (KIP-890), so that
nothing delayed gets into a later transaction; whoever asks again is known by the epoch before.

``is_pending`` says that a step of the same id is being written.  Who speaks version 2 is told so,
or that markers are being written, before anything else: they may know the id that comes after it.

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
    #: The ``transaction.version`` that the client speaks.
    client_transaction_version: int

    @property
    def bumps_epoch(self) -> bool:
        return self.client_transaction_version >= TV_2


# A producer begins


def decide_init(
    txn: TransactionMetadata,
    expected: ProducerIdAndEpoch | None,
    *,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: int | None,
) -> TransactionMetadata:
    """The next epoch, or ``new_id`` where there is none.  An open transaction is in the way: the
    caller fences it first."""
    check_can_init(txn, expected)
    changes: dict[str, Any] = {
        "timeout_ms": timeout_ms,
        "updated_ms": now_ms,
        "started_ms": NOT_STARTED,
        "partitions": frozenset(),
    }
    if txn.is_epoch_exhausted and (expected is None or expected.epoch == txn.producer_epoch):
        if new_producer_id is None:
            raise ConcurrentTransactions("another step has just used up the epochs")
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
    """Refuse while markers are being written, and whoever has been fenced (KIP-360)."""
    if has_pending_transition:
        raise ConcurrentTransactions()
    if expected is not None and not _is_valid_producer_id(txn, expected):
        raise ProducerFenced(f"{expected} is not the current producer {txn.producer}")
    if txn.state in PREPARED:
        raise ConcurrentTransactions("the last transaction is still being ended")
    _check_not_transient(txn)


def _is_valid_producer_id(txn: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    is_new = txn.producer_epoch == NO_PRODUCER_EPOCH
    is_previous = (
        expected.id == txn.previous_producer_id and expected.epoch >= MAX_PRODUCER_EPOCH - 1
    )
    return is_new or expected.id == txn.producer_id or is_previous


def _next_epoch(txn: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
    """And the last one, by which the producer may ask again, if it said who it was."""
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
    """Abort what is open, in an epoch that its producer does not have."""
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


# A transaction gets partitions


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
    """Whether a partition may ask which partitions are in the transaction, and is told."""
    txn = _check_producer_id_mapping(txn, producer)
    if producer.epoch != txn.producer_epoch:
        raise ProducerFenced(
            f"epoch {producer.epoch} is not the current epoch {txn.producer_epoch}"
        )
    if txn.state in PREPARED:
        raise ConcurrentTransactions()
    return txn


# A transaction ends


def decide_end(
    txn: TransactionMetadata | None,
    request: EndTransactionRequest,
    *,
    now_ms: int,
    new_producer_id: int | None,
    has_pending_transition: bool = False,
) -> TransactionMetadata | None:
    """None: it has ended so already."""
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
    # What was never begun may be aborted, since a producer cannot know whether it has: its records
    # add partitions (KIP-890).  But what is asked again has had another end than it asks for now.
    may_end = txn.state is TransactionState.ONGOING or not (request.is_commit or is_valid_retry)
    if not may_end:
        raise InvalidTxnState(
            f"cannot go from {txn.state.display_name} to {_prepare_state(request).display_name}"
        )
    return _prepare_commit_or_abort(txn, request, now_ms, new_producer_id)


def _is_retry(txn: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """By the epoch before: the last answer was lost.

    Only an end that began an epoch is asked for by the one before it.  Where the last was of an
    older version, that is the epoch of somebody whom the present producer has fenced.

    Where a log without room for it, or Kafka's, has lost the id that was to come next, the last
    epoch is left, and no producer gets that: it is fenced, and begins with a new id.
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
        raise ConcurrentTransactions("another step has just used up the epochs")
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
    """Every partition has its marker."""
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


# Time passes


def is_timed_out(txn: TransactionMetadata, *, now_ms: int) -> bool:
    return txn.state is TransactionState.ONGOING and txn.started_ms + txn.timeout_ms < now_ms


def is_expired(txn: TransactionMetadata, *, expiration_ms: int, now_ms: int) -> bool:
    return txn.state in COMPLETED_OR_EMPTY and txn.updated_ms <= now_ms - expiration_ms


# What they have in common


def _check_producer_id_mapping(
    txn: TransactionMetadata | None, producer: ProducerIdAndEpoch
) -> TransactionMetadata:
    if txn is None or txn.producer_id != producer.id:
        raise InvalidProducerIdMapping(
            f"producer id {producer.id} does not have this transactional id"
        )
    return txn


def _check_not_transient(txn: TransactionMetadata) -> None:
    """States that are passed through are in no log that we or Kafka wrote."""
    if txn.state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise KafkaError(f"unexpected transient state in the log: {txn}")


def _prepare_state(request: EndTransactionRequest) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT


def _complete_state(request: EndTransactionRequest) -> TransactionState:
    return (
        TransactionState.COMPLETE_COMMIT if request.is_commit else TransactionState.COMPLETE_ABORT
    )
