"""Everything that the controller reacts to.

Three kinds, by where they come from:

    the tree    what a watch was left at has changed.  They say no more than that: whoever handles
                one looks, and leaves the watch again
    brokers     a broker has answered, a leader or a broker about to stop asks
    people      an administrator asks; a setting was changed; the time has come

Equal events of the first kind that wait together are one.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.controller.controller_channel import BrokerResponse
from odradek.controller.controller_znode import ControllerEpochAndVersion
from odradek.controller.feature_updates import FeatureUpdate
from odradek.controller.reassignment_requests import ReassignmentTargets
from odradek.controller.replica_leader_elections import ElectionType
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.types import TopicPartition

# The session and the election


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """/controller has come, gone or changed; also, that it has not been looked at yet."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session with the store has expired, and with it all that was ours in the tree."""

    session_id: int


@dataclass(frozen=True, slots=True)
class ControllerFailoverFailed:
    """What the controller must know could not be read: another, or a second try, may do better."""

    controller_epoch: ControllerEpochAndVersion


# The tree


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Below /brokers/ids."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Below /brokers/topics."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """The values of nodes below /brokers/topics; the watch has noted which."""


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Below /admin/delete_topics."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """/admin/reassign_partitions."""


@dataclass(frozen=True, slots=True)
class ZkPreferredReplicaElection:
    """/admin/preferred_replica_election."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """Below /isr_change_notification."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """Below /log_dir_event_notification."""


# Brokers


@dataclass(frozen=True, slots=True)
class ControlResponseReceived:
    broker_response: BrokerResponse


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange:
    """Of partitions that are being reassigned, which may be complete now."""

    partitions: tuple[TopicPartition, ...]


# People, and time


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    election_type: ElectionType
    #: None: of all partitions that need it.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    reassignments: ReassignmentTargets
    allow_replication_factor_change: bool


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    #: None: all that are under way.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    updates: tuple[FeatureUpdate, ...]
    is_atomic: bool
    #: Or else only judged.
    should_write: bool


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    #: None: for all topics that say nothing themselves.
    topic: str | None


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """The preferred leaders may have lost too much to others; in the epoch of a controller."""

    epoch: int


#: Those that somebody waits for, and is refused if this broker is not the controller.
PreemptableControllerEvent = (
    AlterPartitionReceived
    | ControlledShutdown
    | AllocateProducerIds
    | ReplicaLeaderElection
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | UpdateFeatures
)
