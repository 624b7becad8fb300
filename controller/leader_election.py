"""The leader election strategies.  Kafka: Election and PartitionLeaderElectionAlgorithms.

Each strategy is a pure function of the assignment, the ISR and the live replicas:

    offline              The leader is gone.  Elect an in-sync replica; if the topic allows unclean
                         elections and there is none, a replica whose log may lack records.
    preferred            Elect the first replica of the assignment.
    reassignment         The leader is not among the target replicas.  Elect one of these.
    controlled shutdown  The leader's broker is shutting down.  Elect another in-sync replica.

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
    """The replicas of a partition and the facts that an election depends on."""

    assignment: ReplicaAssignment
    #: Replicas on brokers that are alive and in directories that work.
    live_replicas: Collection[int]
    #: Brokers that are shutting down: they are alive, but must not become leaders.
    shutting_down_brokers: Collection[int] = ()
    allows_unclean: bool = False


def elect_leader(
    current: LeaderIsrAndControllerEpoch,
    candidates: LeaderCandidates,
    strategy: PartitionLeaderElectionStrategy,
) -> LeaderIsrAndControllerEpoch | None:
    """Return the new leader and ISR in a new leader epoch, or None if no replica can lead."""
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
    """Explain why ``elect_leader`` returned None."""
    if not candidates.assignment.replicas:
        return "the partition no longer exists"
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
    """The first replica that is in all of ``required_in``."""
    return next((each for each in replicas if all(each in others for others in required_in)), None)
