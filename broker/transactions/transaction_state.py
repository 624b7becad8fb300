"""The life of a transactional id: its states, the moves between them, and what is known of it.

    Empty              a producer is known, and has not begun a transaction
    Ongoing            partitions have been added to its transaction
    PrepareCommit      it will be committed, whatever happens: markers are being written
    PrepareAbort       it will be aborted, likewise
    CompleteCommit     every partition has its marker
    CompleteAbort      likewise
    PrepareEpochFence  an open transaction gets a new epoch, to be aborted in: passed through
    Dead               nobody has used it for long: passed through, the log gets a tombstone

A ``Transaction`` is all that the log says of one id, and never changes.  Deciding makes another
(decisions.py), it is written, and ``apply`` puts it in the place of the last.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from odradek.protocol.types import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
#: Never given to a producer, so that it can always be fenced.
MAX_PRODUCER_EPOCH = 32_767
NOT_STARTED = -1
#: The ``transaction.version`` from which on every end of a transaction begins an epoch (KIP-890).
TV_2 = 2


class TransactionState(Enum):
    """By the number that stands for it in the log; see ``shown``."""

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
        """As clients are told: ``PrepareCommit``."""
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

#: Its markers are being written: nothing else happens to it meanwhile.
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
#: There is no open transaction: another may begin, and the id may expire.
COMPLETED_OR_EMPTY = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class ProducerIdAndEpoch(NamedTuple):
    """Who speaks for a transactional id: the last epoch that was given away counts."""

    id: int
    epoch: int


# A named tuple: every step makes another of the last, which takes a dataclass twice as long.
class TransactionMetadata(NamedTuple):
    """A transactional id, and its present or last transaction."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    #: When any of this last changed.
    updated_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    #: When the first partition was added.
    started_ms: int = NOT_STARTED
    #: The epoch before, for a producer that asks again for the present one (KIP-360).  It is not
    #: in the log, as in Kafka: whoever asks another coordinator is fenced.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    #: The producer's id before, if the last step gave it another.
    previous_producer_id: int = NO_PRODUCER_ID
    #: The id to be used when the transaction is complete: the epochs of this one are used up.
    next_producer_id: int = NO_PRODUCER_ID
    #: The ``transaction.version`` that its producer speaks.
    client_transaction_version: int = 0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """Who begins the transaction after this one, if nobody else comes."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether there is no further epoch for a producer of this id."""
        return self.producer_epoch >= MAX_PRODUCER_EPOCH - 1

    @property
    def is_commit(self) -> bool:
        """Of one that is prepared: how it will end."""
        return self.state is TransactionState.PREPARE_COMMIT

    def prepare_transition_to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """Decided, not yet written."""
        assert state in VALID_TRANSITIONS[self.state], (self, state)
        producer_id = changes.get("producer_id", self.producer_id)
        previous = NO_PRODUCER_ID if producer_id == self.producer_id else self.producer_id
        return self._replace(state=state, previous_producer_id=previous, **changes)


def complete_transition(
    current: TransactionMetadata | None, new_metadata: TransactionMetadata
) -> TransactionMetadata:
    """What is written takes effect; while the log is read, there is nothing before."""
    assert current is None or new_metadata.state in VALID_TRANSITIONS[current.state], (
        current,
        new_metadata,
    )
    return new_metadata
