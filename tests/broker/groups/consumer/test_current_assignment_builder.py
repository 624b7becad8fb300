"""Tests of broker/groups/consumer/current_assignment_builder.py: all states and targets."""

import pytest

from odradek.broker.groups.consumer.current_assignment_builder import TargetAssignment, reconcile
from odradek.broker.groups.consumer.member import CurrentAssignment, MemberState
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS
from odradek.protocol.errors import FencedMemberEpoch
from tests.support.subscriptions import A, partitions

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def assignment(*numbers, epoch=3, previous=2, state=STABLE, to_revoke=()):
    return CurrentAssignment(
        epoch, previous, state, partitions(A, *numbers), partitions(A, *to_revoke)
    )


def reconcile_member(current, *target, epoch=5, held=(), owned=None):
    return reconcile(
        current,
        TargetAssignment(epoch, partitions(A, *target)),
        is_free=lambda each: each[1] not in held,
        owned_partitions=None if owned is None else partitions(A, *owned),
    )


def test_stable_member_at_the_target_epoch_is_unchanged():
    current = assignment(1, 2)
    assert reconcile_member(current, 7, epoch=3) is current


def test_member_without_revocations_gets_free_partitions():
    assert reconcile_member(assignment(1), 1, 2) == assignment(1, 2, epoch=5, previous=3)


def test_member_revokes_before_it_gets_partitions():
    assert reconcile_member(assignment(1, 2), 2, 3) == assignment(
        2, epoch=3, previous=3, state=UNREVOKED, to_revoke=[1]
    )


def test_partition_that_the_member_does_not_own_need_not_be_revoked():
    assert reconcile_member(assignment(1, 2), 2, owned=[2]) == assignment(2, epoch=5, previous=3)


@pytest.mark.parametrize("owned", [None, [1, 2], [1]])
def test_member_waits_until_it_reports_the_revocation(owned):
    current = assignment(2, state=UNREVOKED, to_revoke=[1])
    assert reconcile_member(current, 2, 3, owned=owned) is current


def test_member_advances_after_its_revocation():
    current = assignment(2, state=UNREVOKED, to_revoke=[1])
    assert reconcile_member(current, 2, 3, owned=[2]) == assignment(2, 3, epoch=5, previous=3)


def test_member_may_have_to_revoke_more_after_its_revocation():
    current = assignment(2, state=UNREVOKED, to_revoke=[1])
    after = reconcile_member(current, 3, owned=[2])
    assert after == assignment(epoch=4, previous=3, state=UNREVOKED, to_revoke=[2])


def test_member_waits_for_unreleased_partitions_in_the_target_epoch():
    assert reconcile_member(assignment(1), 1, 2, 3, held=[2]) == assignment(
        1, 3, epoch=5, previous=3, state=UNRELEASED
    )
    assert reconcile_member(assignment(1), 1, 2, held=[2]) == assignment(
        1, epoch=5, previous=3, state=UNRELEASED
    )


def test_member_gets_unreleased_partitions_when_they_are_free():
    waiting = assignment(1, epoch=5, previous=3, state=UNRELEASED)
    assert reconcile_member(waiting, 1, 2) == assignment(1, 2, epoch=5, previous=5)


def test_waiting_member_may_have_to_revoke():
    waiting = assignment(1, epoch=5, previous=3, state=UNRELEASED)
    assert reconcile_member(waiting, 2, epoch=6) == assignment(
        epoch=5, previous=5, state=UNREVOKED, to_revoke=[1]
    )


@pytest.mark.parametrize("owned", [None, [1]])
def test_member_in_an_unknown_state_must_rejoin(owned):
    with pytest.raises(FencedMemberEpoch):
        reconcile_member(assignment(1, state=MemberState.UNKNOWN), 1, owned=owned)


def test_member_in_an_unknown_state_without_partitions_is_reconciled():
    unknown = CurrentAssignment(3, 2, MemberState.UNKNOWN, NO_PARTITIONS, NO_PARTITIONS)
    assert reconcile_member(unknown, 1, owned=[]) == assignment(1, epoch=5, previous=3)


def test_states_of_newer_brokers_are_unknown():
    assert MemberState.from_value(1) is UNREVOKED
    assert MemberState.from_value(9) is MemberState.UNKNOWN
