"""Who is to lead a partition?

Four occasions, each a pure function of what is assigned, in sync and alive:

    offline              the leader is gone; where the topic allows it, and only then, by a replica
                         that was not in sync, whose log may lack what others had
    preferred            the first of the assignment shall lead again
    reassignment         the leader is not among the new replicas
    controlled shutdown  the leader's broker is about to stop

Owner: none; pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.replica_assignment import ReplicaAssignment


class PartitionLeaderElectionStrategy(Enum):
    OFFLINE_PARTITION = auto()
    PREFERRED_REPLICA = auto()
    REASSIGN_PARTITION = auto()
    CONTROLLED_SHUTDOWN = auto()


@dataclass(frozen=True, slots=True)
class LeaderCandidates:
    """The replicas of a partition, and what is known of them."""

    assignment: ReplicaAssignment
    #: Replicas on brokers that are alive and in directories that work.
    live_replicas: Collection[int]
    #: Brokers about to stop: they are alive, but must lead nothing new.
    shutting_down_brokers: Collection[int] = ()
    allows_unclean: bool = False


def elect_leader(
    current: LeaderIsrAndControllerEpoch,
    candidates: LeaderCandidates,
    strategy: PartitionLeaderElectionStrategy,
) -> LeaderIsrAndControllerEpoch | None:
    """The next leadership, in a new epoch; None if nobody can lead."""
    match strategy:
        case PartitionLeaderElectionStrategy.OFFLINE_PARTITION:
            return _offline_partition_leader_election(current, candidates)
        case PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN:
            return _controlled_shutdown_partition_leader_election(current, candidates)
        case PartitionLeaderElectionStrategy.PREFERRED_REPLICA:
            replicas = candidates.assignment.replicas[:1]
        case PartitionLeaderElectionStrategy.REASSIGN_PARTITION:
            replicas = candidates.assignment.target_replicas
    leader = _first_in_all(replicas, candidates.live_replicas, current.isr)
    if leader is None:
        return None
    return current.new_leader_and_isr(leader, current.isr, is_recovering=current.is_recovering)


def no_leader_reason(
    candidates: LeaderCandidates, strategy: PartitionLeaderElectionStrategy
) -> str:
    """In words, where nobody was elected."""
    if not candidates.assignment.replicas:
        return "there is no such partition any more"
    match strategy:
        case PartitionLeaderElectionStrategy.OFFLINE_PARTITION:
            return "no replica that is in sync is alive"
        case PartitionLeaderElectionStrategy.PREFERRED_REPLICA:
            preferred = candidates.assignment.replicas[0]
            lacking = "in sync" if preferred in candidates.live_replicas else "alive"
            return f"the preferred leader, broker {preferred}, is not {lacking}"
        case PartitionLeaderElectionStrategy.REASSIGN_PARTITION:
            return "no new replica is both alive and in sync"
        case PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN:
            return "no other replica is both alive and in sync"


def _offline_partition_leader_election(
    current: LeaderIsrAndControllerEpoch, candidates: LeaderCandidates
) -> LeaderIsrAndControllerEpoch | None:
    replicas = candidates.assignment.replicas
    leader = _first_in_all(replicas, candidates.live_replicas, current.isr)
    if leader is not None:
        isr = tuple(replica for replica in current.isr if replica in candidates.live_replicas)
        return current.new_leader_and_isr(leader, isr, is_recovering=current.is_recovering)
    leader = (
        _first_in_all(replicas, candidates.live_replicas) if candidates.allows_unclean else None
    )
    if leader is None:
        return None
    return current.new_leader_and_isr(leader, (leader,), is_recovering=True)


def _controlled_shutdown_partition_leader_election(
    current: LeaderIsrAndControllerEpoch, candidates: LeaderCandidates
) -> LeaderIsrAndControllerEpoch | None:
    staying = tuple(
        replica for replica in current.isr if replica not in candidates.shutting_down_brokers
    )
    leader = _first_in_all(candidates.assignment.replicas, candidates.live_replicas, staying)
    if leader is None:
        return None
    return current.new_leader_and_isr(leader, staying, is_recovering=current.is_recovering)


def _first_in_all(replicas: Collection[int], *required_in: Collection[int]) -> int | None:
    """The first replica that is in all of the others."""
    return next((each for each in replicas if all(each in others for others in required_in)), None)
