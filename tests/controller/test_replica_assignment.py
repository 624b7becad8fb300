"""Tests of controller/replica_assignment.py."""

from odradek.controller.replica_assignment import ReplicaAssignment


def test_assignment_without_reassignment_is_its_own_origin_and_target():
    assignment = ReplicaAssignment((1, 2, 3))
    assert not assignment.is_being_reassigned
    assert assignment.origin_replicas == assignment.target_replicas == (1, 2, 3)


def test_reassign_to_puts_target_replicas_first_in_their_order():
    reassigning = ReplicaAssignment((1, 2, 3)).reassign_to((5, 3, 4))
    assert reassigning == ReplicaAssignment(
        (5, 3, 4, 1, 2), adding_replicas=(5, 4), removing_replicas=(1, 2)
    )
    assert reassigning.is_being_reassigned
    assert reassigning.target_replicas == (5, 3, 4)
    assert sorted(reassigning.origin_replicas) == [1, 2, 3]


def test_reassign_to_the_same_replicas_only_reorders_them():
    reordered = ReplicaAssignment((1, 2, 3)).reassign_to((3, 1, 2))
    assert reordered == ReplicaAssignment((3, 1, 2))
    assert not reordered.is_being_reassigned


def test_second_reassignment_keeps_the_first_origin():
    first = ReplicaAssignment((1, 2)).reassign_to((3, 4))
    second = first.reassign_to((4, 5))
    assert second == ReplicaAssignment(
        (4, 5, 1, 2), adding_replicas=(4, 5), removing_replicas=(1, 2)
    )
    assert second.origin_replicas == (1, 2)


def test_reassign_to_origin_adds_and_removes_no_replicas():
    reassigning = ReplicaAssignment((1, 2)).reassign_to((3, 4))
    assert reassigning.reassign_to(reassigning.origin_replicas) == ReplicaAssignment((1, 2))


def test_remove_replica_removes_it_from_all_replica_lists():
    reassigning = ReplicaAssignment((3, 4, 1, 2), adding_replicas=(3, 4), removing_replicas=(1, 2))
    assert reassigning.remove_replica(1) == ReplicaAssignment(
        (3, 4, 2), adding_replicas=(3, 4), removing_replicas=(2,)
    )
    assert reassigning.remove_replica(3) == ReplicaAssignment(
        (4, 1, 2), adding_replicas=(4,), removing_replicas=(1, 2)
    )
    assert reassigning.remove_replica(9) == reassigning
