"""The states of a transactional id, the valid transitions between them, and its metadata.

Kafka: TransactionState and TransactionMetadata.

    Empty              a producer is initialized, and has not begun a transaction
    Ongoing            partitions have been added to the transaction
    PrepareCommit      the commit is final: markers are being written
    PrepareAbort       the abort is final: markers are being written
    CompleteCommit     every partition has its commit marker
    CompleteAbort      every partition has its abort marker
    PrepareEpochFence  transient: an open transaction gets a new epoch, in which it is aborted
    Dead               transient: the id has expired, and its tombstone is written

A ``TransactionMetadata`` is all that is known of one id, and is immutable.  A decision returns a
new one (decisions.py).  When it is written, ``complete_transition`` applies it.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from odradek.protocol.types import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
#: Never given to a producer, so that every producer can be fenced.
MAX_PRODUCER_EPOCH = 32_767
NOT_STARTED = -1
#: The ``transaction.version`` from which on every end of a transaction bumps the epoch (KIP-890).
TV_2 = 2


class TransactionState(Enum):
    """The values are those in the log.  Clients know the names by ``display_name``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def display_name(self) -> str:
        """The name that clients know: ``PrepareCommit``."""
        return self.name.title().replace("_", "")


#: By the name that clients know.
STATES_BY_NAME: Mapping[str, TransactionState] = {
    state.display_name: state for state in TransactionState
}

_AFTER_COMPLETED_OR_EMPTY = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.DEAD,
    }
)

#: state -> the states it may move to
VALID_TRANSITIONS: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _AFTER_COMPLETED_OR_EMPTY,
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _AFTER_COMPLETED_OR_EMPTY,
    TransactionState.COMPLETE_ABORT: _AFTER_COMPLETED_OR_EMPTY,
    TransactionState.DEAD: frozenset({TransactionState.DEAD}),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}

#: Markers are being written: no other transition is possible meanwhile.
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
#: No transaction is open: a new one may begin, and the id may expire.
COMPLETED_OR_EMPTY = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class ProducerIdAndEpoch(NamedTuple):
    """The producer that owns a transactional id: the last epoch that was issued counts."""

    id: int
    epoch: int


# A named tuple: every transition copies it, and copying a dataclass takes twice as long.
class TransactionMetadata(NamedTuple):
    """A transactional id, with its current or last transaction."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    #: When the metadata was last changed.
    updated_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    #: When the first partition was added.
    started_ms: int = NOT_STARTED
    #: The previous epoch, for a producer that retries the request for the current one (KIP-360).
    #: As in Kafka it is not in the log: a producer that retries at another coordinator is fenced.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    #: The previous producer id, if the last transition changed it.
    previous_producer_id: int = NO_PRODUCER_ID
    #: The producer id after the completion, if the epochs of this one are exhausted.
    next_producer_id: int = NO_PRODUCER_ID
    #: The ``transaction.version`` of the producer.
    client_transaction_version: int = 0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer of the next transaction, unless another one is initialized."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether this producer id has no further epoch for a producer."""
        return self.producer_epoch >= MAX_PRODUCER_EPOCH - 1

    @property
    def is_commit(self) -> bool:
        """Whether a prepared transaction will be committed."""
        return self.state is TransactionState.PREPARE_COMMIT

    def prepare_transition_to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """Return the metadata after a transition that is decided, but not yet written."""
        assert state in VALID_TRANSITIONS[self.state], (self, state)
        producer_id = changes.get("producer_id", self.producer_id)
        previous = NO_PRODUCER_ID if producer_id == self.producer_id else self.producer_id
        return self._replace(state=state, previous_producer_id=previous, **changes)


def complete_transition(
    current: TransactionMetadata | None, new_metadata: TransactionMetadata
) -> TransactionMetadata:
    """Apply a written transition; ``current`` is None while the log is being loaded."""
    assert current is None or new_metadata.state in VALID_TRANSITIONS[current.state], (
        current,
        new_metadata,
    )
    return new_metadata
