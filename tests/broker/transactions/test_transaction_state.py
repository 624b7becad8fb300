"""The states of a transactional id and the transitions between them."""

import pytest

from odradek.broker.transactions.transaction_state import (
    COMPLETED_OR_EMPTY,
    PREPARED,
    STATES_BY_NAME,
    VALID_TRANSITIONS,
    ProducerIdAndEpoch,
    TransactionState,
    complete_transition,
)
from tests.support.transactions import OURS, transaction

#: The valid previous states of each state in Kafka; here a dead id also stays dead.
VALID_PREVIOUS_STATES = {
    TransactionState.EMPTY: COMPLETED_OR_EMPTY,
    TransactionState.ONGOING: COMPLETED_OR_EMPTY | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: {TransactionState.ONGOING},
    TransactionState.PREPARE_ABORT: COMPLETED_OR_EMPTY
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: {TransactionState.PREPARE_COMMIT},
    TransactionState.COMPLETE_ABORT: {TransactionState.PREPARE_ABORT},
    TransactionState.DEAD: COMPLETED_OR_EMPTY | {TransactionState.DEAD},
    TransactionState.PREPARE_EPOCH_FENCE: {TransactionState.ONGOING},
}


def test_transitions_equal_those_of_kafka():
    transitions = {
        state: {after for after in TransactionState if state in VALID_PREVIOUS_STATES[after]}
        for state in TransactionState
    }
    assert transitions == VALID_TRANSITIONS


def test_state_names_equal_those_of_kafka():
    assert list(STATES_BY_NAME) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert all(state.display_name == name for name, state in STATES_BY_NAME.items())


@pytest.mark.parametrize("before", TransactionState)
@pytest.mark.parametrize("after", TransactionState)
def test_invalid_transition_is_an_assertion_error(before, after):
    txn, record = transaction(before), transaction(after)
    if after in VALID_TRANSITIONS[before]:
        assert complete_transition(txn, record) is record
        assert txn.prepare_transition_to(after).state is after
    else:
        with pytest.raises(AssertionError):
            complete_transition(txn, record)
        with pytest.raises(AssertionError):
            txn.prepare_transition_to(after)


def test_previous_producer_id_is_kept_for_one_transition():
    rotated = transaction().prepare_transition_to(
        TransactionState.EMPTY, producer_id=8, producer_epoch=0
    )
    assert rotated.previous_producer_id == 7
    assert rotated.prepare_transition_to(TransactionState.ONGOING).previous_producer_id == -1


@pytest.mark.parametrize(("epoch", "is_exhausted"), [(0, False), (32_765, False), (32_766, True)])
def test_last_epoch_is_not_given_to_a_producer(epoch, is_exhausted):
    assert transaction(producer_epoch=epoch).is_epoch_exhausted is is_exhausted


def test_next_producer_is_known_while_markers_are_written():
    assert transaction(TransactionState.PREPARE_COMMIT).next_producer == OURS
    ended = transaction(TransactionState.PREPARE_COMMIT, producer_epoch=32_767, next_producer_id=9)
    assert ended.next_producer == ProducerIdAndEpoch(9, 0)


def test_prepared_states_say_whether_they_commit():
    assert [transaction(state).is_commit for state in sorted(PREPARED, key=lambda s: s.value)] == [
        True,
        False,
    ]
