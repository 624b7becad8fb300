"""Tests of broker/groups/consumer/uniform_assignor.py and uniform_heterogeneous_assignor.py."""

from odradek.broker.groups.consumer.uniform_assignor import assign
from tests.support.subscriptions import A, B, C, partitions, subscriber, with_their_own


def sizes(assignment):
    return {member: len(assigned) for member, assigned in assignment.items()}


def test_partitions_of_all_topics_count_alike():
    members = {"m0": subscriber(A, B), "m1": subscriber(A, B)}
    assert sizes(assign(members, {A: 1, B: 3})) == {"m0": 2, "m1": 2}


def test_member_with_most_partitions_keeps_the_surplus_one():
    members = {
        "m0": subscriber(A, has=partitions(A, 0)),
        "m1": subscriber(A, has=partitions(A, 1, 2)),
    }
    assert assign(members, {A: 3}) == {"m0": partitions(A, 0), "m1": partitions(A, 1, 2)}


def test_new_member_takes_only_its_share():
    before = {"m0": subscriber(A, has=partitions(A, 0, 1, 2, 3)), "m1": subscriber(A)}
    after = assign(before, {A: 4})
    assert after == {"m0": partitions(A, 0, 1), "m1": partitions(A, 2, 3)}


def test_partitions_of_a_removed_member_go_to_the_others():
    members = {
        "m0": subscriber(A, has=partitions(A, 0)),
        "m1": subscriber(A, has=partitions(A, 1)),
    }
    after = assign(members, {A: 4})
    assert sizes(after) == {"m0": 2, "m1": 2}
    assert all(
        members[member].assigned_partitions <= assigned for member, assigned in after.items()
    )


def test_unsubscribed_partitions_are_revoked():
    assert assign({"m0": subscriber(B, has=partitions(A, 0))}, {B: 1}) == {"m0": partitions(B, 0)}


def test_empty_group_gets_an_empty_assignment():
    assert assign({}, {}) == {}


def test_overlapping_subscriptions_are_balanced():
    members = {"m0": subscriber(A), "m1": subscriber(A, B)}
    after = assign(members, {A: 4, B: 2})
    assert sizes(after) == {"m0": 3, "m1": 3}
    assert partitions(B, 0, 1) <= after["m1"]


def test_neighbours_in_a_chain_of_subscriptions_differ_by_at_most_one():
    members = {
        "m0": subscriber(A, has=partitions(A, *range(6))),
        "m1": subscriber(A, B, has=partitions(B, *range(6))),
        "m2": subscriber(B, C),
    }
    assert sizes(assign(members, {A: 6, B: 6, C: 0})) == {"m0": 5, "m1": 4, "m2": 3}


def test_balanced_assignment_is_kept():
    members = {"m0": subscriber(A), "m1": subscriber(A, B), "m2": subscriber(B, C)}
    counts = {A: 5, B: 4, C: 3}
    once = assign(members, counts)
    assert assign(with_their_own(members, once), counts) == once
