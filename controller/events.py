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

from odradek.controller.broker_link import Answer
from odradek.controller.election import Elected
from odradek.controller.feature_updates import FeatureUpdate
from odradek.controller.preferred_leaders import ElectionKind
from odradek.controller.reassignment_requests import Targets
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.types import TopicPartition

# The session and the election


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """/controller has come, gone or changed; also, that it has not been looked at yet."""


@dataclass(frozen=True, slots=True)
class SessionOver:
    """The session with the store has expired, and with it all that was ours in the tree."""

    session_id: int


@dataclass(frozen=True, slots=True)
class TenureFailed:
    """What the controller must know could not be read: another, or a second try, may do better."""

    elected: Elected


# The tree


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Below /brokers/ids."""


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    broker: int


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Below /brokers/topics."""


@dataclass(frozen=True, slots=True)
class TopicNodesChanged:
    """The values of nodes below /brokers/topics; the watch has noted which."""


@dataclass(frozen=True, slots=True)
class DeletionsChanged:
    """Below /admin/delete_topics."""


@dataclass(frozen=True, slots=True)
class ReassignmentsChanged:
    """/admin/reassign_partitions."""


@dataclass(frozen=True, slots=True)
class PreferredElectionsChanged:
    """/admin/preferred_replica_election."""


@dataclass(frozen=True, slots=True)
class IsrNotified:
    """Below /isr_change_notification."""


@dataclass(frozen=True, slots=True)
class LogDirNotified:
    """Below /log_dir_event_notification."""


# Brokers


@dataclass(frozen=True, slots=True)
class Answered:
    answer: Answer


@dataclass(frozen=True, slots=True)
class AlterPartition:
    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    broker: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    broker: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """Of partitions that are being reassigned, which may be complete now."""

    partitions: tuple[TopicPartition, ...]


# People, and time


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    kind: ElectionKind
    #: None: of all partitions that need it.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    requested: Targets
    may_change_factor: bool


@dataclass(frozen=True, slots=True)
class ListReassignments:
    #: None: all that are under way.
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    updates: tuple[FeatureUpdate, ...]
    is_whole: bool
    #: Or else only judged.
    is_written: bool


@dataclass(frozen=True, slots=True)
class UncleanElectionsAllowed:
    #: None: for all topics that say nothing themselves.
    topic: str | None


@dataclass(frozen=True, slots=True)
class BalanceDue:
    """The preferred leaders may have lost too much to others; in the epoch of a controller."""

    epoch: int


#: Those that somebody waits for, and is refused if this broker is not the controller.
Request = (
    AlterPartition
    | ControlledShutdown
    | AllocateProducerIds
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | UpdateFeatures
)
