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
NO_EPOCH = -1
#: Never given to a producer, so that it can always be fenced.
LAST_EPOCH = 32_767
NOT_BEGUN = -1
#: The ``transaction.version`` from which on every end of a transaction begins an epoch (KIP-890).
EPOCH_FOR_EACH = 2


class State(Enum):
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
    def shown(self) -> str:
        """As clients are told: ``PrepareCommit``."""
        return self.name.title().replace("_", "")


#: By the name that clients know.
BY_NAME: Mapping[str, State] = {state.shown: state for state in State}

_BEGIN_OR_END = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})

#: state -> the states it may move to
MOVES: Mapping[State, frozenset[State]] = {
    State.EMPTY: _BEGIN_OR_END,
    State.ONGOING: frozenset(
        {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}
    ),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _BEGIN_OR_END,
    State.COMPLETE_ABORT: _BEGIN_OR_END,
    State.DEAD: frozenset({State.DEAD}),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}

#: Its markers are being written: nothing else happens to it meanwhile.
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
#: There is no open transaction: another may begin, and the id may expire.
AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Producer(NamedTuple):
    """Who speaks for a transactional id: the last epoch that was given away counts."""

    id: int
    epoch: int


# A named tuple: every step makes another of the last, which takes a dataclass twice as long.
class Transaction(NamedTuple):
    """A transactional id, and its present or last transaction."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    #: When any of this last changed.
    updated_ms: int
    producer_epoch: int = NO_EPOCH
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    #: When the first partition was added.
    started_ms: int = NOT_BEGUN
    #: The epoch before, for a producer that asks again for the present one (KIP-360).  It is not
    #: in the log, as in Kafka: whoever asks another coordinator is fenced.
    last_epoch: int = NO_EPOCH
    #: The producer's id before, if the last step gave it another.
    previous_producer_id: int = NO_PRODUCER_ID
    #: The id to be used when the transaction is complete: the epochs of this one are used up.
    next_producer_id: int = NO_PRODUCER_ID
    #: The ``transaction.version`` that its producer speaks.
    client_version: int = 0

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def successor(self) -> Producer:
        """Who begins the transaction after this one, if nobody else comes."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, 0)
        return self.producer

    @property
    def is_exhausted(self) -> bool:
        """Whether there is no further epoch for a producer of this id."""
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def is_commit(self) -> bool:
        """Of one that is prepared: how it will end."""
        return self.state is State.PREPARE_COMMIT

    def moved(self, state: State, **changes: Any) -> Transaction:
        """Decided, not yet written."""
        assert state in MOVES[self.state], (self, state)
        producer_id = changes.get("producer_id", self.producer_id)
        previous = NO_PRODUCER_ID if producer_id == self.producer_id else self.producer_id
        return self._replace(state=state, previous_producer_id=previous, **changes)


def apply(before: Transaction | None, record: Transaction) -> Transaction:
    """What is written takes effect; while the log is read, there is nothing before."""
    assert before is None or record.state in MOVES[before.state], (before, record)
    return record
