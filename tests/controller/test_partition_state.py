"""Tests of controller/partition_state.py."""

from itertools import product

import pytest

from odradek.controller.partition_state import VALID_TRANSITIONS
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
def test_valid_transitions_equal_kafkas(state, target):
    assert (target in VALID_TRANSITIONS[state]) == ((state, target) in LEGAL)


def test_every_state_can_be_entered_and_left():
    assert set(VALID_TRANSITIONS) == set(State)
    assert {target for targets in VALID_TRANSITIONS.values() for target in targets} == set(State)
