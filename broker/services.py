"""The parts of a running broker that handlers use, by name.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odradek.broker.admin.config_admin_manager import ConfigAdminManager
from odradek.broker.admin.config_helper import ConfigHelper
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.fetching.fetch_session_cache import FetchSessionCache
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from odradek.broker.metadata.auto_topic_creation_manager import AutoTopicCreationManager
from odradek.broker.metadata.finalized_feature_cache import FinalizedFeatureCache
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.record_inspector import RecordInspector
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.broker.replicas.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.replicas.replication_quota_manager import ReplicationQuotaManagers
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.topic_configs import TopicConfigs
from odradek.broker.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.producer_id_manager import ProducerIdManager
from odradek.controller.controller import KafkaController
from odradek.controller.topic_admin import TopicAdmin
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerServices:
    """The routes pass each handler only the services that it needs."""

    settings: DynamicSettings
    replica_manager: ReplicaManager
    quota_managers: ReplicationQuotaManagers
    alter_log_dirs_manager: ReplicaAlterLogDirsManager
    log_manager: LogManager
    disk_executor: DiskExecutor
    record_inspector: RecordInspector
    metadata_cache: MetadataCache
    features: FinalizedFeatureCache
    controller: KafkaController
    controller_fence: ControllerFence
    fetch_session_cache: FetchSessionCache
    topic_admin: TopicAdmin
    auto_topic_creation_manager: AutoTopicCreationManager
    config_helper: ConfigHelper
    config_admin_manager: ConfigAdminManager
    topic_configs: TopicConfigs
    producer_id_manager: ProducerIdManager
    add_partitions_to_txn_manager: AddPartitionsToTxnManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    zookeeper_offsets: ZooKeeperOffsets
    #: The coordinators by the key type of FindCoordinator.
    coordinator_lookups: Mapping[int, CoordinatorLookup]
    now_ms: Callable[[], int]

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that the controller reports as deleted."""
        self.topic_configs.forget(partitions)
        self.groups.on_partitions_deleted(partitions)
