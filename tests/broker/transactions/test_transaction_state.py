"""The states of a transactional id, and the moves between them."""

import pytest

from odradek.broker.transactions.transaction_state import (
    AT_REST,
    BY_NAME,
    MOVES,
    PREPARED,
    Producer,
    State,
    apply,
)
from tests.support.transactions import OURS, transaction

#: As Kafka has it: which states may come before which; but what is dead stays so.
BEFORE = {
    State.EMPTY: AT_REST,
    State.ONGOING: AT_REST | {State.ONGOING},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: AT_REST | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
    State.DEAD: AT_REST | {State.DEAD},
    State.PREPARE_EPOCH_FENCE: {State.ONGOING},
}


def test_the_moves_are_those_that_kafka_has():
    moves = {state: {after for after in State if state in BEFORE[after]} for state in State}
    assert moves == MOVES


def test_states_are_shown_as_kafka_shows_them():
    assert list(BY_NAME) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert all(state.shown == name for name, state in BY_NAME.items())


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_what_is_no_move_is_a_mistake_of_ours(before, after):
    txn, record = transaction(before), transaction(after)
    if after in MOVES[before]:
        assert apply(txn, record) is record
        assert txn.moved(after).state is after
    else:
        with pytest.raises(AssertionError):
            apply(txn, record)
        with pytest.raises(AssertionError):
            txn.moved(after)


def test_the_id_before_is_kept_for_the_step_that_changes_it_alone():
    rotated = transaction().moved(State.EMPTY, producer_id=8, producer_epoch=0)
    assert rotated.previous_producer_id == 7
    assert rotated.moved(State.ONGOING).previous_producer_id == -1


@pytest.mark.parametrize(("epoch", "is_exhausted"), [(0, False), (32_765, False), (32_766, True)])
def test_the_last_epoch_is_for_no_producer(epoch, is_exhausted):
    assert transaction(producer_epoch=epoch).is_exhausted is is_exhausted


def test_who_comes_after_is_known_while_markers_are_written():
    assert transaction(State.PREPARE_COMMIT).successor == OURS
    ended = transaction(State.PREPARE_COMMIT, producer_epoch=32_767, next_producer_id=9)
    assert ended.successor == Producer(9, 0)


def test_one_state_prepares_each_end():
    assert [transaction(state).is_commit for state in sorted(PREPARED, key=lambda s: s.value)] == [
        True,
        False,
    ]
