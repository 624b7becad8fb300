"""Tests of controller/assignment.py."""

from odradek.controller.assignment import Assignment


def test_an_assignment_at_rest_is_its_own_origin_and_target():
    assignment = Assignment((1, 2, 3))
    assert not assignment.is_being_reassigned
    assert assignment.origin == assignment.target == (1, 2, 3)


def test_the_new_replicas_come_first_and_in_their_order():
    moving = Assignment((1, 2, 3)).reassigned_to((5, 3, 4))
    assert moving == Assignment((5, 3, 4, 1, 2), adding=(5, 4), removing=(1, 2))
    assert moving.is_being_reassigned
    assert moving.target == (5, 3, 4)
    assert sorted(moving.origin) == [1, 2, 3]


def test_only_the_order_may_change():
    reordered = Assignment((1, 2, 3)).reassigned_to((3, 1, 2))
    assert reordered == Assignment((3, 1, 2))
    assert not reordered.is_being_reassigned


def test_another_target_starts_from_the_same_origin():
    first = Assignment((1, 2)).reassigned_to((3, 4))
    second = first.reassigned_to((4, 5))
    assert second == Assignment((4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    assert second.origin == (1, 2)


def test_going_back_to_the_origin_adds_and_removes_nothing():
    moving = Assignment((1, 2)).reassigned_to((3, 4))
    assert moving.reassigned_to(moving.origin) == Assignment((1, 2))


def test_a_replica_is_forgotten_wherever_it_stood():
    moving = Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    assert moving.without(1) == Assignment((3, 4, 2), adding=(3, 4), removing=(2,))
    assert moving.without(3) == Assignment((4, 1, 2), adding=(4,), removing=(1, 2))
    assert moving.without(9) == moving
