"""The events that the controller processes.  Kafka: ControllerEvent and its subclasses.

There are three kinds, by their origin:

    store          A watch fired.  The event carries no data: its handler reads the current state
                   and sets the watch again.
    brokers        A broker responded to a request, or sent one.
    administrators An administrator sent a request, a setting changed, or a timer fired.

Equal events of the first kind are queued only once.

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

# Session and election


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """/controller was created, deleted or changed, or has not been read yet."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session with the store expired, and its ephemeral nodes are gone."""

    session_id: int


@dataclass(frozen=True, slots=True)
class ControllerFailoverFailed:
    """The failover failed: another broker, or a second attempt, may succeed."""

    controller_epoch: ControllerEpochAndVersion


# Metadata store


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """The children of /brokers/ids changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The children of /brokers/topics changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """Data of nodes below /brokers/topics changed; the watch has recorded which."""


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """The children of /admin/delete_topics changed."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """/admin/reassign_partitions changed."""


@dataclass(frozen=True, slots=True)
class ZkPreferredReplicaElection:
    """/admin/preferred_replica_election changed."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """The children of /isr_change_notification changed."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """The children of /log_dir_event_notification changed."""


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
    """The ISR of partitions changed whose reassignment may be complete now."""

    partitions: tuple[TopicPartition, ...]


# Administrators, settings and timers


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    election_type: ElectionType
    #: None selects all partitions that need an election.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    reassignments: ReassignmentTargets
    allow_replication_factor_change: bool


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    #: None selects all reassignments in progress.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    updates: tuple[FeatureUpdate, ...]
    is_atomic: bool
    #: False: only validate.
    should_write: bool


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    #: None means all topics that do not configure it themselves.
    topic: str | None


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """The timer of the controller with this epoch fired: check the leader imbalance."""

    epoch: int


#: Events with a waiting caller, who receives NotController if this broker is not the controller.
PreemptableControllerEvent = (
    AlterPartitionReceived
    | ControlledShutdown
    | AllocateProducerIds
    | ReplicaLeaderElection
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | UpdateFeatures
)
