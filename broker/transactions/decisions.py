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
    AT_REST,
    EPOCH_FOR_EACH,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NOT_BEGUN,
    PREPARED,
    Producer,
    State,
    Transaction,
)
from odradek.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)
from odradek.protocol.types import TopicPartition


class Ending(NamedTuple):
    """A request to end a transaction."""

    producer: Producer
    is_commit: bool
    #: The ``transaction.version`` that the client speaks.
    client_version: int

    @property
    def begins_epoch(self) -> bool:
        return self.client_version >= EPOCH_FOR_EACH


# A producer begins


def decide_init(
    txn: Transaction,
    expected: Producer | None,
    *,
    timeout_ms: int,
    now_ms: int,
    new_id: int | None,
) -> Transaction:
    """The next epoch, or ``new_id`` where there is none.  An open transaction is in the way: the
    caller fences it first."""
    check_may_init(txn, expected)
    begun: dict[str, Any] = {
        "timeout_ms": timeout_ms,
        "updated_ms": now_ms,
        "started_ms": NOT_BEGUN,
        "partitions": frozenset(),
    }
    if txn.is_exhausted and (expected is None or expected.epoch == txn.producer_epoch):
        if new_id is None:
            raise ConcurrentTransactions("another step has just used up the epochs")
        last = NO_EPOCH if expected is None else txn.producer_epoch
        return txn.moved(
            State.EMPTY, producer_id=new_id, producer_epoch=0, last_epoch=last, **begun
        )
    epoch, last = _next_epoch(txn, expected)
    return txn.moved(State.EMPTY, producer_epoch=epoch, last_epoch=last, **begun)


def check_may_init(
    txn: Transaction, expected: Producer | None, *, is_pending: bool = False
) -> None:
    """Refuse while markers are being written, and whoever has been fenced (KIP-360)."""
    if is_pending:
        raise ConcurrentTransactions()
    if expected is not None and not _is_known(txn, expected):
        raise ProducerFenced(f"{expected} is not {txn.producer}")
    if txn.state in PREPARED:
        raise ConcurrentTransactions("the last transaction is still being ended")
    _check_is_lasting(txn)


def _is_known(txn: Transaction, expected: Producer) -> bool:
    is_new = txn.producer_epoch == NO_EPOCH
    is_before = expected.id == txn.previous_producer_id and expected.epoch >= LAST_EPOCH - 1
    return is_new or expected.id == txn.producer_id or is_before


def _next_epoch(txn: Transaction, expected: Producer | None) -> tuple[int, int]:
    """And the last one, by which the producer may ask again, if it said who it was."""
    current = txn.producer_epoch
    if expected is None:
        return current + 1, NO_EPOCH
    if current in (NO_EPOCH, expected.epoch):
        return current + 1, current
    if expected.epoch == txn.last_epoch and current < LAST_EPOCH:
        return current, txn.last_epoch
    raise ProducerFenced(f"epoch {expected.epoch} is over, {current} is the present one")


def decide_fence(txn: Transaction, *, server_version: int, now_ms: int) -> Transaction:
    """Abort what is open, in an epoch that its producer does not have."""
    fenced = txn.moved(
        State.PREPARE_EPOCH_FENCE, producer_epoch=min(txn.producer_epoch + 1, LAST_EPOCH)
    )
    keeps_last = server_version >= EPOCH_FOR_EACH
    return fenced.moved(
        State.PREPARE_ABORT,
        last_epoch=txn.producer_epoch if keeps_last else NO_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        updated_ms=now_ms,
        client_version=server_version,
    )


# A transaction gets partitions


def decide_add(
    txn: Transaction | None,
    producer: Producer,
    added: Set[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
    is_pending: bool = False,
) -> Transaction | None:
    is_busy = is_pending or (txn is not None and txn.state in PREPARED)
    if is_busy and client_version >= EPOCH_FOR_EACH:
        raise ConcurrentTransactions()
    txn = _of(txn, producer)
    if producer.epoch != txn.producer_epoch:
        raise ProducerFenced(f"epoch {producer.epoch} is not {txn.producer_epoch}")
    if is_busy:
        raise ConcurrentTransactions()
    _check_is_lasting(txn)
    is_begun = txn.state is State.ONGOING
    if is_begun and added <= txn.partitions:
        return None
    return txn.moved(
        State.ONGOING,
        partitions=txn.partitions | added,
        started_ms=txn.started_ms if is_begun else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def check_verified(txn: Transaction | None, producer: Producer) -> Transaction:
    """Whether a partition may ask which partitions are in the transaction, and is told."""
    txn = _of(txn, producer)
    if producer.epoch != txn.producer_epoch:
        raise ProducerFenced(f"epoch {producer.epoch} is not {txn.producer_epoch}")
    if txn.state in PREPARED:
        raise ConcurrentTransactions()
    return txn


# A transaction ends


def decide_end(
    txn: Transaction | None,
    ending: Ending,
    *,
    now_ms: int,
    new_id: int | None,
    is_pending: bool = False,
) -> Transaction | None:
    """None: it has ended so already."""
    if ending.begins_epoch:
        return _decide_end_of_epoch(txn, ending, now_ms, new_id, is_pending)
    txn = _of(txn, ending.producer)
    if ending.producer.epoch != txn.producer_epoch:
        raise ProducerFenced(f"epoch {ending.producer.epoch} is not {txn.producer_epoch}")
    if is_pending or txn.state in PREPARED:
        raise ConcurrentTransactions()
    _check_is_lasting(txn)
    if txn.state is State.ONGOING:
        return txn.moved(
            _prepared(ending),
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
            client_version=ending.client_version,
        )
    if txn.state is _completed(ending):
        return None
    raise InvalidTxnState(f"{txn.state.shown} does not become {_prepared(ending).shown}")


def _decide_end_of_epoch(
    txn: Transaction | None, ending: Ending, now_ms: int, new_id: int | None, is_pending: bool
) -> Transaction | None:
    if txn is None:
        raise InvalidProducerIdMapping()
    if is_pending or txn.state in PREPARED:
        raise ConcurrentTransactions()
    epoch, is_again = ending.producer.epoch, _is_asked_again(txn, ending.producer)
    if ending.producer.id != txn.producer_id and not is_again:
        raise InvalidProducerIdMapping(f"{ending.producer.id} is not {txn.producer_id}")
    may_ask_again = is_again and txn.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    if epoch != txn.producer_epoch and not may_ask_again:
        raise ProducerFenced(f"epoch {epoch} is not {txn.producer_epoch}")
    _check_is_lasting(txn)
    if may_ask_again and txn.state is _completed(ending):
        return None
    # What was never begun may be aborted, since a producer cannot know whether it has: its records
    # add partitions (KIP-890).  But what is asked again has had another end than it asks for now.
    may_end = txn.state is State.ONGOING or not (ending.is_commit or may_ask_again)
    if not may_end:
        raise InvalidTxnState(f"{txn.state.shown} does not become {_prepared(ending).shown}")
    return _ended(txn, ending, now_ms, new_id)


def _is_asked_again(txn: Transaction, producer: Producer) -> bool:
    """By the epoch before: the last answer was lost.

    Only an end that began an epoch is asked for by the one before it.  Where the last was of an
    older version, that is the epoch of somebody whom the present producer has fenced.

    Where a log without room for it, or Kafka's, has lost the id that was to come next, the last
    epoch is left, and no producer gets that: it is fenced, and begins with a new id.
    """
    if txn.client_version < EPOCH_FOR_EACH:
        return False
    if producer.id == txn.producer_id:
        return producer.epoch + 1 == txn.producer_epoch < LAST_EPOCH
    is_before = producer.id == txn.previous_producer_id
    return is_before and producer.epoch == LAST_EPOCH - 1 and txn.producer_epoch == 0


def _ended(txn: Transaction, ending: Ending, now_ms: int, new_id: int | None) -> Transaction:
    if txn.is_exhausted and new_id is None:
        raise ConcurrentTransactions("another step has just used up the epochs")
    return txn.moved(
        _prepared(ending),
        producer_epoch=min(txn.producer_epoch + 1, LAST_EPOCH),
        last_epoch=txn.producer_epoch,
        next_producer_id=new_id if txn.is_exhausted else NO_PRODUCER_ID,
        started_ms=txn.started_ms if txn.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=ending.client_version,
    )


def decide_complete(txn: Transaction, *, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    state = State.COMPLETE_COMMIT if txn.is_commit else State.COMPLETE_ABORT
    rotated: dict[str, int] = {}
    if txn.next_producer_id != NO_PRODUCER_ID:
        rotated = {"producer_id": txn.next_producer_id, "producer_epoch": 0}
    return txn.moved(
        state,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
        **rotated,
    )


# Time passes


def is_timed_out(txn: Transaction, *, now_ms: int) -> bool:
    return txn.state is State.ONGOING and txn.started_ms + txn.timeout_ms < now_ms


def is_expired(txn: Transaction, *, expiration_ms: int, now_ms: int) -> bool:
    return txn.state in AT_REST and txn.updated_ms <= now_ms - expiration_ms


# What they have in common


def _of(txn: Transaction | None, producer: Producer) -> Transaction:
    if txn is None or txn.producer_id != producer.id:
        raise InvalidProducerIdMapping(f"{producer.id} has not this transactional id")
    return txn


def _check_is_lasting(txn: Transaction) -> None:
    """States that are passed through are in no log that we or Kafka wrote."""
    if txn.state in (State.DEAD, State.PREPARE_EPOCH_FENCE):
        raise KafkaError(f"{txn} is in a state that does not last")


def _prepared(ending: Ending) -> State:
    return State.PREPARE_COMMIT if ending.is_commit else State.PREPARE_ABORT


def _completed(ending: Ending) -> State:
    return State.COMPLETE_COMMIT if ending.is_commit else State.COMPLETE_ABORT
