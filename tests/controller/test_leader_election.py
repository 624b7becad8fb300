"""Tests of controller/leader_election.py."""

from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.leader_election import Candidates, Occasion, elected, why_nobody
from odradek.controller.leadership import NO_LEADER, Leadership

BROKERS = (1, 2, 3)


def led(leader, isr, **others):
    now = Leadership(leader, leader_epoch=4, isr=isr, controller_epoch=1, partition_epoch=9)
    return replace(now, **others)


def candidates(*online, **others):
    return Candidates(**{"assignment": Assignment(BROKERS), "online": online, **others})


def subsets(brokers):
    return chain.from_iterable(combinations(brokers, size) for size in range(len(brokers) + 1))


# The leader is gone


def test_the_first_replica_that_is_in_sync_and_alive_leads():
    assert elected(led(1, (3, 2, 1)), candidates(2, 3), Occasion.OFFLINE) == led(
        2, (3, 2), leader_epoch=5
    )


def test_who_is_dead_leaves_the_isr_with_the_election():
    next_one = elected(led(1, (1, 2, 3)), candidates(3), Occasion.OFFLINE)
    assert (next_one.leader, next_one.isr) == (3, (3,))


def test_who_is_not_in_sync_leads_only_where_that_is_allowed():
    assert elected(led(1, (1,)), candidates(2, 3), Occasion.OFFLINE) is None
    assert elected(led(1, (1,)), candidates(2, 3, allows_unclean=True), Occasion.OFFLINE) == led(
        2, (2,), leader_epoch=5, is_recovering=True
    )


def test_who_is_in_sync_is_preferred_even_where_others_are_allowed():
    next_one = elected(led(1, (1, 3)), candidates(2, 3, allows_unclean=True), Occasion.OFFLINE)
    assert next_one == led(3, (3,), leader_epoch=5)


def test_a_partition_recovers_until_its_leader_says_that_it_is_done():
    recovering = led(1, (1, 2), is_recovering=True)
    assert elected(recovering, candidates(2), Occasion.OFFLINE).is_recovering


def test_nobody_leads_when_nobody_is_alive():
    assert elected(led(1, (1, 2)), candidates(allows_unclean=True), Occasion.OFFLINE) is None


# The preferred leader is back


def test_the_preferred_leader_leads_when_it_is_alive_and_in_sync():
    next_one = elected(led(2, (2, 1)), candidates(1, 2), Occasion.PREFERRED)
    assert next_one == led(1, (2, 1), leader_epoch=5)


@pytest.mark.parametrize(("online", "isr"), [((2, 3), (1, 2)), ((1, 2, 3), (2, 3))])
def test_only_the_preferred_leader_is_preferred(online, isr):
    assert elected(led(2, isr), candidates(*online), Occasion.PREFERRED) is None


# The replicas are exchanged


def test_the_first_of_the_target_that_can_lead_does():
    moving = Assignment((1, 2)).reassigned_to((4, 3))
    next_one = elected(
        led(1, (1, 2, 3)), candidates(1, 2, 3, 4, assignment=moving), Occasion.REASSIGNMENT
    )
    assert next_one == led(3, (1, 2, 3), leader_epoch=5)


def test_none_that_is_to_go_leads_the_reassigned():
    moving = Assignment((1, 2)).reassigned_to((4, 3))
    assert (
        elected(led(1, (1, 2)), candidates(1, 2, 3, 4, assignment=moving), Occasion.REASSIGNMENT)
        is None
    )


# The leader's broker is about to stop


def test_who_is_about_to_stop_hands_over_and_leaves_the_isr():
    next_one = elected(
        led(1, (1, 2, 3)), candidates(1, 2, 3, shutting_down={1}), Occasion.CONTROLLED_SHUTDOWN
    )
    assert next_one == led(2, (2, 3), leader_epoch=5)


def test_the_last_in_sync_cannot_hand_over():
    assert (
        elected(led(1, (1,)), candidates(1, 2, shutting_down={1}), Occasion.CONTROLLED_SHUTDOWN)
        is None
    )


# On every occasion


@pytest.mark.parametrize("occasion", Occasion)
def test_whoever_is_elected_is_a_live_replica_in_a_new_epoch_and_in_sync(occasion):
    assignments = [Assignment(BROKERS), Assignment((1, 2)).reassigned_to((3, 2))]
    for assignment, isr, online, stopping, allowed in product(
        assignments, subsets(BROKERS), subsets(BROKERS), subsets(BROKERS), (False, True)
    ):
        alive = set(online) - set(stopping)
        now = led(isr[0] if isr else NO_LEADER, isr)
        next_one = elected(now, Candidates(assignment, alive, stopping, allowed), occasion)
        if next_one is None:
            continue
        assert next_one.leader in alive
        assert next_one.leader in assignment.replicas
        assert next_one.leader in next_one.isr
        assert next_one.leader_epoch == now.leader_epoch + 1
        if next_one.leader not in isr:
            assert (occasion, allowed) == (Occasion.OFFLINE, True)
            assert not alive & set(isr)
            assert next_one.is_recovering


@pytest.mark.parametrize("occasion", Occasion)
def test_a_partition_that_was_deleted_meanwhile_has_a_reason_too(occasion):
    gone = candidates(1, assignment=Assignment(()))
    assert why_nobody(gone, occasion) == "there is no such partition any more"
