"""Tests of broker/groups/consumer/reconcile.py: every state, and every kind of target."""

import pytest

from odradek.broker.groups.consumer.member import CurrentAssignment, MemberState
from odradek.broker.groups.consumer.partitions import NOTHING
from odradek.broker.groups.consumer.reconcile import Target, reconcile
from odradek.protocol.errors import FencedMemberEpoch
from tests.support.subscriptions import A, partitions

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def has(*numbers, epoch=3, previous=2, state=STABLE, to_revoke=()):
    return CurrentAssignment(
        epoch, previous, state, partitions(A, *numbers), partitions(A, *to_revoke)
    )


def led(current, *target, epoch=5, held=(), owned=None):
    return reconcile(
        current,
        Target(epoch, partitions(A, *target)),
        is_free=lambda each: each[1] not in held,
        owned=None if owned is None else partitions(A, *owned),
    )


def test_a_stable_member_of_the_epoch_stays_as_it_is():
    current = has(1, 2)
    assert led(current, 7, epoch=3) is current


def test_with_nothing_to_give_up_it_gets_what_is_free():
    assert led(has(1), 1, 2) == has(1, 2, epoch=5, previous=3)


def test_it_is_told_to_give_up_before_it_gets_anything():
    assert led(has(1, 2), 2, 3) == has(2, epoch=3, previous=3, state=UNREVOKED, to_revoke=[1])


def test_what_it_says_it_has_not_need_not_be_given_up():
    assert led(has(1, 2), 2, owned=[2]) == has(2, epoch=5, previous=3)


@pytest.mark.parametrize("owned", [None, [1, 2], [1]])
def test_it_waits_until_it_says_that_it_gave_up(owned):
    current = has(2, state=UNREVOKED, to_revoke=[1])
    assert led(current, 2, 3, owned=owned) is current


def test_having_given_up_it_is_led_on():
    current = has(2, state=UNREVOKED, to_revoke=[1])
    assert led(current, 2, 3, owned=[2]) == has(2, 3, epoch=5, previous=3)


def test_having_given_up_it_may_have_to_give_up_more():
    current = has(2, state=UNREVOKED, to_revoke=[1])
    after = led(current, 3, owned=[2])
    assert after == has(epoch=4, previous=3, state=UNREVOKED, to_revoke=[2])


def test_what_others_hold_is_waited_for_in_the_epoch_of_the_target():
    assert led(has(1), 1, 2, 3, held=[2]) == has(1, 3, epoch=5, previous=3, state=UNRELEASED)
    assert led(has(1), 1, 2, held=[2]) == has(1, epoch=5, previous=3, state=UNRELEASED)


def test_what_was_waited_for_is_got_when_it_is_free():
    waiting = has(1, epoch=5, previous=3, state=UNRELEASED)
    assert led(waiting, 1, 2) == has(1, 2, epoch=5, previous=5)


def test_a_member_that_waits_may_have_to_give_up():
    waiting = has(1, epoch=5, previous=3, state=UNRELEASED)
    assert led(waiting, 2, epoch=6) == has(epoch=5, previous=5, state=UNREVOKED, to_revoke=[1])


@pytest.mark.parametrize("owned", [None, [1]])
def test_a_member_whose_state_is_not_known_must_join_anew(owned):
    with pytest.raises(FencedMemberEpoch):
        led(has(1, state=MemberState.UNKNOWN), 1, owned=owned)


def test_a_member_whose_state_is_not_known_and_that_has_nothing_is_led():
    unknown = CurrentAssignment(3, 2, MemberState.UNKNOWN, NOTHING, NOTHING)
    assert led(unknown, 1, owned=[]) == has(1, epoch=5, previous=3)


def test_states_of_newer_brokers_are_unknown():
    assert MemberState.of_record(1) is UNREVOKED
    assert MemberState.of_record(9) is MemberState.UNKNOWN
