"""Tests of controller/partition_state.py."""

from itertools import product

import pytest

from odradek.controller.partition_state import MOVES
from odradek.controller.partition_state import PartitionState as State

LEGAL = {
    (State.NON_EXISTENT, State.NEW),
    (State.NEW, State.ONLINE),
    (State.NEW, State.OFFLINE),
    (State.ONLINE, State.ONLINE),
    (State.ONLINE, State.OFFLINE),
    (State.OFFLINE, State.ONLINE),
    (State.OFFLINE, State.OFFLINE),
    (State.OFFLINE, State.NON_EXISTENT),
}


@pytest.mark.parametrize(("state", "target"), list(product(State, State)))
def test_every_move_is_legal_as_in_kafka_or_it_is_not(state, target):
    assert (target in MOVES[state]) == ((state, target) in LEGAL)


def test_every_state_can_be_reached_and_left():
    assert set(MOVES) == set(State)
    assert {target for targets in MOVES.values() for target in targets} == set(State)
