"""The parts of a running broker that handlers use, by name.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odradek.broker.admin.config_admin import BrokerConfigAdmin
from odradek.broker.admin.config_descriptions import ConfigDescriptions
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.disk import Disk
from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.old_offsets import OldOffsets
from odradek.broker.metadata.agreed_features import AgreedFeatures
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.metadata.topic_creator import TopicCreator
from odradek.broker.record_reader import RecordReader
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.broker.replicas.log_dir_move import LogDirMoves
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.replicas.throttles import ReplicationThrottles
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.topic_configs import TopicConfigs
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.transactions.verification import Verifier
from odradek.controller.controller import Controller
from odradek.controller.topic_admin import TopicAdmin
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Each handler is given those that it names, and no others."""

    settings: DynamicSettings
    replicas: ReplicaManager
    throttles: ReplicationThrottles
    moves: LogDirMoves
    logs: LogManager
    disk: Disk
    reader: RecordReader
    cluster: MetadataCache
    features: AgreedFeatures
    controller: Controller
    fence: ControllerFence
    fetch_sessions: FetchSessions
    topic_admin: TopicAdmin
    topic_creator: TopicCreator
    config_descriptions: ConfigDescriptions
    config_admin: BrokerConfigAdmin
    topic_configs: TopicConfigs
    producer_ids: ProducerIds
    verifier: Verifier
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    old_offsets: OldOffsets
    #: Who coordinates what, by the type of a key in FindCoordinator.
    coordinators: Mapping[int, CoordinatorLookup]
    now_ms: Callable[[], int]

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """The controller says that they are gone."""
        self.topic_configs.forget(partitions)
        self.groups.partitions_deleted(partitions)
