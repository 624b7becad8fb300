"""Tests of controller/leader_election.py."""

from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from odradek.controller.leader_and_isr import NO_LEADER, LeaderIsrAndControllerEpoch
from odradek.controller.leader_election import (
    LeaderCandidates,
    PartitionLeaderElectionStrategy,
    elect_leader,
    no_leader_reason,
)
from odradek.controller.replica_assignment import ReplicaAssignment

BROKERS = (1, 2, 3)


def leadership(leader, isr, **others):
    current = LeaderIsrAndControllerEpoch(
        leader, leader_epoch=4, isr=isr, controller_epoch=1, partition_epoch=9
    )
    return replace(current, **others)


def candidates(*online, **others):
    return LeaderCandidates(
        **{"assignment": ReplicaAssignment(BROKERS), "live_replicas": online, **others}
    )


def subsets(brokers):
    return chain.from_iterable(combinations(brokers, size) for size in range(len(brokers) + 1))


# Offline partitions


def test_first_live_isr_member_is_elected():
    assert elect_leader(
        leadership(1, (3, 2, 1)),
        candidates(2, 3),
        PartitionLeaderElectionStrategy.OFFLINE_PARTITION,
    ) == leadership(2, (3, 2), leader_epoch=5)


def test_offline_replicas_leave_the_isr_with_the_election():
    elected = elect_leader(
        leadership(1, (1, 2, 3)), candidates(3), PartitionLeaderElectionStrategy.OFFLINE_PARTITION
    )
    assert (elected.leader, elected.isr) == (3, (3,))


def test_replica_outside_the_isr_is_elected_only_if_unclean_is_allowed():
    assert (
        elect_leader(
            leadership(1, (1,)), candidates(2, 3), PartitionLeaderElectionStrategy.OFFLINE_PARTITION
        )
        is None
    )
    assert elect_leader(
        leadership(1, (1,)),
        candidates(2, 3, allows_unclean=True),
        PartitionLeaderElectionStrategy.OFFLINE_PARTITION,
    ) == leadership(2, (2,), leader_epoch=5, is_recovering=True)


def test_isr_member_is_preferred_even_if_unclean_is_allowed():
    elected = elect_leader(
        leadership(1, (1, 3)),
        candidates(2, 3, allows_unclean=True),
        PartitionLeaderElectionStrategy.OFFLINE_PARTITION,
    )
    assert elected == leadership(3, (3,), leader_epoch=5)


def test_election_keeps_the_recovering_state():
    recovering = leadership(1, (1, 2), is_recovering=True)
    assert elect_leader(
        recovering, candidates(2), PartitionLeaderElectionStrategy.OFFLINE_PARTITION
    ).is_recovering


def test_no_leader_is_elected_without_live_replicas():
    assert (
        elect_leader(
            leadership(1, (1, 2)),
            candidates(allows_unclean=True),
            PartitionLeaderElectionStrategy.OFFLINE_PARTITION,
        )
        is None
    )


# Preferred replica elections


def test_live_preferred_leader_in_isr_is_elected():
    elected = elect_leader(
        leadership(2, (2, 1)), candidates(1, 2), PartitionLeaderElectionStrategy.PREFERRED_REPLICA
    )
    assert elected == leadership(1, (2, 1), leader_epoch=5)


@pytest.mark.parametrize(("online", "isr"), [((2, 3), (1, 2)), ((1, 2, 3), (2, 3))])
def test_preferred_election_elects_no_other_replica(online, isr):
    assert (
        elect_leader(
            leadership(2, isr),
            candidates(*online),
            PartitionLeaderElectionStrategy.PREFERRED_REPLICA,
        )
        is None
    )


# Reassignments


def test_reassignment_elects_the_first_live_target_replica_in_isr():
    reassigning = ReplicaAssignment((1, 2)).reassign_to((4, 3))
    elected = elect_leader(
        leadership(1, (1, 2, 3)),
        candidates(1, 2, 3, 4, assignment=reassigning),
        PartitionLeaderElectionStrategy.REASSIGN_PARTITION,
    )
    assert elected == leadership(3, (1, 2, 3), leader_epoch=5)


def test_reassignment_elects_no_replica_outside_the_target():
    reassigning = ReplicaAssignment((1, 2)).reassign_to((4, 3))
    assert (
        elect_leader(
            leadership(1, (1, 2)),
            candidates(1, 2, 3, 4, assignment=reassigning),
            PartitionLeaderElectionStrategy.REASSIGN_PARTITION,
        )
        is None
    )


# Controlled shutdown


def test_controlled_shutdown_moves_the_leader_and_shrinks_the_isr():
    elected = elect_leader(
        leadership(1, (1, 2, 3)),
        candidates(1, 2, 3, shutting_down_brokers={1}),
        PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN,
    )
    assert elected == leadership(2, (2, 3), leader_epoch=5)


def test_controlled_shutdown_of_the_last_isr_member_elects_no_leader():
    assert (
        elect_leader(
            leadership(1, (1,)),
            candidates(1, 2, shutting_down_brokers={1}),
            PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN,
        )
        is None
    )


# All strategies


@pytest.mark.parametrize("strategy", PartitionLeaderElectionStrategy)
def test_elected_leader_is_live_assigned_in_isr_and_in_a_new_epoch(strategy):
    assignments = [ReplicaAssignment(BROKERS), ReplicaAssignment((1, 2)).reassign_to((3, 2))]
    for assignment, isr, online, shutting_down, allowed in product(
        assignments, subsets(BROKERS), subsets(BROKERS), subsets(BROKERS), (False, True)
    ):
        alive = set(online) - set(shutting_down)
        current = leadership(isr[0] if isr else NO_LEADER, isr)
        elected = elect_leader(
            current, LeaderCandidates(assignment, alive, shutting_down, allowed), strategy
        )
        if elected is None:
            continue
        assert elected.leader in alive
        assert elected.leader in assignment.replicas
        assert elected.leader in elected.isr
        assert elected.leader_epoch == current.leader_epoch + 1
        if elected.leader not in isr:
            assert (strategy, allowed) == (PartitionLeaderElectionStrategy.OFFLINE_PARTITION, True)
            assert not alive & set(isr)
            assert elected.is_recovering


@pytest.mark.parametrize("strategy", PartitionLeaderElectionStrategy)
def test_deleted_partition_has_a_no_leader_reason(strategy):
    deleted = candidates(1, assignment=ReplicaAssignment(()))
    assert no_leader_reason(deleted, strategy) == "the partition no longer exists"
