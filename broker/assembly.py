"""Constructs the parts of a broker that serve requests and connects them.  It starts nothing.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import SystemRandom
from typing import cast
from uuid import uuid4

from odradek.broker import clock
from odradek.broker.admin.config_admin_manager import ConfigAdminManager
from odradek.broker.admin.config_helper import ConfigHelper
from odradek.broker.controller_client import ControllerClient
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_count_cache import PartitionCountCache
from odradek.broker.coordinator.partition_log import CoordinatorContext, CoordinatorLogSettings
from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.fetching.fetch_session_cache import FetchSessionCache
from odradek.broker.groups.consumer.topics import TopicsProvider
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from odradek.broker.handlers import find_coordinator
from odradek.broker.identity import build_registration
from odradek.broker.log_maintenance import LogMaintenance
from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.metadata.auto_topic_creation_manager import AutoTopicCreationManager
from odradek.broker.metadata.finalized_feature_cache import FinalizedFeatureCache
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_client import BrokerClient
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.local_connections import LocalConnections
from odradek.broker.network.outgoing_connections import OutgoingConnections
from odradek.broker.record_inspector import RecordInspector
from odradek.broker.replicas.alter_partition_manager import AlterPartitionManager
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.broker.replicas.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from odradek.broker.replicas.replica_fetcher import FetcherContext
from odradek.broker.replicas.replica_fetcher_manager import ReplicaFetcherManager
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.replicas.replication_quota_manager import ReplicationQuotaManagers
from odradek.broker.routes import build_routes
from odradek.broker.services import BrokerServices
from odradek.broker.settings.dynamic_settings import DynamicSettings, MaintenanceSettings
from odradek.broker.settings.topic_configs import TopicConfigs
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.marker_channel import MarkerChannels
from odradek.broker.transactions.marker_channel_manager import TransactionMarkerChannelManager
from odradek.broker.transactions.producer_id_manager import ProducerIdManager
from odradek.broker.worker_process import WorkerProcess
from odradek.controller.active_controller import ControllerEnvironment
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.controller import KafkaController
from odradek.controller.controller_channel import BrokerConnection
from odradek.controller.controller_context import Broker
from odradek.controller.feature_updates import SUPPORTED_FEATURES
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import BrokerIdentity
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import TopicDefaults
from odradek.protocol.types import Uuid
from odradek.storage.manager.log_manager import LogManager

_random = SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDependencies:
    """Everything that the assembly needs from the start-up code."""

    broker_id: int
    cluster_id: str
    settings: DynamicSettings
    store: MetadataStore
    log_manager: LogManager
    disk_executor: DiskExecutor
    cleaner_process: WorkerProcess
    record_inspector: RecordInspector
    task_registry: TaskRegistry
    #: The addresses that clients and other brokers connect to.
    advertised_endpoints: Sequence[Endpoint]
    local_connections: LocalConnections


class BrokerAssembly:
    """All parts of one broker that serve requests."""

    def __init__(self, dependencies: BrokerDependencies) -> None:
        self._dependencies = dependencies
        settings, store = dependencies.settings, dependencies.store
        self.metadata_cache = MetadataCache(dependencies.cluster_id)
        self.outgoing_connections = OutgoingConnections()
        self.log_maintenance = LogMaintenance(
            dependencies.log_manager,
            MaintenanceSettings(settings),
            disk_executor=dependencies.disk_executor,
            cleaner_process=dependencies.cleaner_process,
            now_ms=clock.now_ms,
        )
        self.replica_manager = ReplicaManager(
            dependencies.broker_id,
            dependencies.log_manager,
            self.metadata_cache,
            log_maintenance=self.log_maintenance,
            start_task=dependencies.task_registry.start,
            now_ms=clock.now_ms,
        )
        self.quota_managers = ReplicationQuotaManagers.from_dynamic_settings(
            settings, broker_id=dependencies.broker_id
        )
        self.replica_manager.alter_log_dirs_manager = self.alter_log_dirs_manager = (
            self._create_alter_log_dirs_manager()
        )
        self.alter_log_dirs_manager.quota = self.quota_managers.alter_log_dirs
        self._broker_identity = self._create_broker_identity()
        self.controller = KafkaController(
            store,
            self._broker_identity,
            settings.current.controller,
            self._create_controller_environment(),
        )
        self.controller_client = self._create_controller_client()
        self.replica_fetcher_manager = self._set_up_replication()
        self._topic_admin = TopicAdmin(
            store,
            MetadataReader(store),
            defaults=self._topic_defaults,
            random=_random,
            new_topic_id=_new_topic_id,
            has_required_listeners=self._broker_identity.has_required_listeners,
        )
        self._auto_topic_creation_manager = AutoTopicCreationManager(
            self._topic_admin,
            is_enabled=lambda: settings.current.broker.auto_create_topics_enable,
            internal_topic=lambda name: settings.current.internal_topics.creatable_topic(name),
            start_task=dependencies.task_registry.start,
        )
        self.groups = self._create_group_coordinator()
        self.replica_manager.leadership_listeners[CONSUMER_OFFSETS] = self.groups.runtime
        self.producer_id_manager = ProducerIdManager(self.controller_client.allocate_producer_ids)
        self.features = FinalizedFeatureCache(store, start_task=dependencies.task_registry.start)
        self.transactions = self._create_transaction_coordinator()
        self.replica_manager.leadership_listeners[TRANSACTION_STATE] = self.transactions.runtime
        self.services = self._create_services()
        self.routes = build_routes(self.services)

    def _create_alter_log_dirs_manager(self) -> ReplicaAlterLogDirsManager:
        dependencies = self._dependencies
        return ReplicaAlterLogDirsManager(
            self.replica_manager,
            dependencies.log_manager,
            log_maintenance=self.log_maintenance,
            disk_executor=dependencies.disk_executor,
            start_task=dependencies.task_registry.start,
            now_ms=clock.now_ms,
        )

    def _create_controller_client(self) -> ControllerClient:
        dependencies = self._dependencies
        current = dependencies.settings.current
        listener = current.network.inter_broker_listener
        timeout_ms = current.broker.controller_socket_timeout_ms
        return ControllerClient(
            Node(dependencies.broker_id, "", -1, None),
            controller_id=lambda: self.controller.controller_id,
            nodes=lambda: self.metadata_cache.nodes(listener),
            clients=self._create_clients("requests to controller", timeout_ms=timeout_ms),
            broker_epoch=lambda: self.controller.broker_epoch,
        )

    def _set_up_replication(self) -> ReplicaFetcherManager:
        """Create the ISR manager for led partitions and the fetchers for followed partitions."""
        dependencies = self._dependencies
        current = dependencies.settings.current
        self.replica_manager.isr_manager = AlterPartitionManager(
            self.metadata_cache,
            self.controller_client,
            lag_max_ms=lambda: dependencies.settings.current.replication.lag_time_max_ms,
            now_ms=clock.monotonic_ms,
            start_task=dependencies.task_registry.start,
        )
        self.replica_manager.replica_fetcher_manager = fetcher_manager = ReplicaFetcherManager(
            FetcherContext(
                broker_id=dependencies.broker_id,
                log_manager=dependencies.log_manager,
                log_maintenance=self.log_maintenance,
                settings=lambda: dependencies.settings.current.replication,
                broker_epoch=lambda: self.controller.broker_epoch,
                now_ms=clock.now_ms,
                follower_quota=self.quota_managers.follower,
            ),
            self.metadata_cache,
            listener=current.network.inter_broker_listener,
            create_client=self._create_fetcher_client,
            start_task=dependencies.task_registry.start,
        )
        self.metadata_cache.broker_change_listeners.append(fetcher_manager.on_metadata_change)
        return fetcher_manager

    def _create_fetcher_client(self, node: Node) -> BrokerClient:
        return BrokerClient(
            node.host,
            node.port,
            client_id=f"broker-{self._dependencies.broker_id}-fetcher",
            timeout_s=self._dependencies.settings.current.replication.socket_timeout_ms / 1000,
            counter=self.outgoing_connections.counter(f"fetches from broker {node.id}"),
        )

    def _create_group_coordinator(self) -> GroupCoordinator:
        settings = self._dependencies.settings
        lookup = self._create_coordinator_lookup(
            CONSUMER_OFFSETS, lambda: settings.current.internal_topics.offsets_partitions
        )
        options = settings.current.groups
        context = GroupContext(
            options,
            asyncio.get_running_loop(),
            clock.now_ms,
            _new_uuid,
            settings.current.consumer_groups,
            TopicsProvider(lambda: self.metadata_cache.snapshot),
            settings.groups,
        )
        return GroupCoordinator(lookup, context, self._create_coordinator_context(options))

    def _create_transaction_coordinator(self) -> TransactionCoordinator:
        dependencies, settings = self._dependencies, self._dependencies.settings
        lookup = self._create_coordinator_lookup(
            TRANSACTION_STATE, lambda: settings.current.internal_topics.transactions_partitions
        )
        options, start = settings.current.transactions, dependencies.task_registry.start
        context = TransactionContext(
            options,
            clock.now_ms,
            self.producer_id_manager,
            lambda: self.features.current.transaction_version,
            start,
            asyncio.sleep,
        )
        markers = TransactionMarkerChannelManager(
            self.metadata_cache,
            context,
            MarkerChannels(self._create_clients("markers to broker"), start),
            listener=settings.current.network.inter_broker_listener,
            has_partition=MetadataReader(dependencies.store).has_partition,
        )
        return TransactionCoordinator(
            lookup, context, self._create_coordinator_context(options), markers
        )

    def _create_coordinator_lookup(
        self, topic: str, configured_partition_count: Callable[[], int]
    ) -> CoordinatorLookup:
        start = self._dependencies.task_registry.start
        count = PartitionCountCache(
            topic, MetadataReader(self._dependencies.store), start_task=start
        )
        lookup = CoordinatorLookup(
            topic,
            self.metadata_cache,
            self._auto_topic_creation_manager,
            count,
            configured_partition_count,
            start,
        )
        self.metadata_cache.topic_listeners[topic] = lookup.on_topic_change
        return lookup

    def _create_coordinator_context(self, settings: CoordinatorLogSettings) -> CoordinatorContext:
        """Loaded shards are excluded from garbage collection until one of them is unloaded."""
        return CoordinatorContext(
            settings,
            clock.now_ms,
            self._dependencies.task_registry.start,
            self._dependencies.disk_executor.run_in,
            on_shard_loaded=gc.freeze,
            on_shard_unloaded=gc.unfreeze,
        )

    def _create_services(self) -> BrokerServices:
        dependencies = self._dependencies
        settings, store = dependencies.settings, dependencies.store
        config_admin = ConfigAdmin(
            store, server_settings=lambda: settings.current.topic_default_tables
        )
        return BrokerServices(
            settings=settings,
            replica_manager=self.replica_manager,
            quota_managers=self.quota_managers,
            alter_log_dirs_manager=self.alter_log_dirs_manager,
            log_manager=dependencies.log_manager,
            disk_executor=dependencies.disk_executor,
            record_inspector=dependencies.record_inspector,
            metadata_cache=self.metadata_cache,
            features=self.features,
            controller=self.controller,
            controller_fence=ControllerFence(lambda: self.controller.broker_epoch),
            fetch_session_cache=FetchSessionCache(
                slots=settings.current.broker.fetch_session_slots, now_ms=clock.monotonic_ms
            ),
            topic_admin=self._topic_admin,
            auto_topic_creation_manager=self._auto_topic_creation_manager,
            config_helper=ConfigHelper(
                settings,
                store,
                broker_id=dependencies.broker_id,
                has_topic=self.metadata_cache.has_topic,
            ),
            config_admin_manager=ConfigAdminManager(
                config_admin, settings, broker_id=dependencies.broker_id
            ),
            topic_configs=TopicConfigs(settings, store),
            producer_id_manager=self.producer_id_manager,
            add_partitions_to_txn_manager=AddPartitionsToTxnManager(
                self.transactions.lookup,
                self._create_clients("verifications by broker"),
                listener=settings.current.network.inter_broker_listener,
                start_task=dependencies.task_registry.start,
            ),
            groups=self.groups,
            transactions=self.transactions,
            zookeeper_offsets=ZooKeeperOffsets(store),
            coordinator_lookups={
                find_coordinator.GROUP: self.groups.lookup,
                find_coordinator.TRANSACTION: self.transactions.lookup,
            },
            now_ms=clock.now_ms,
        )

    def _create_broker_identity(self) -> BrokerIdentity:
        current, dependencies = self._dependencies.settings.current, self._dependencies
        registration = build_registration(
            current, dependencies.advertised_endpoints, timestamp_ms=clock.now_ms()
        )
        inter_broker = current.network.inter_broker_listener
        control = current.network.control_plane_listener or inter_broker
        return BrokerIdentity(dependencies.broker_id, registration, inter_broker, control)

    def _create_controller_environment(self) -> ControllerEnvironment:
        return ControllerEnvironment(
            connect=self._create_controller_channel,
            start_task=self._dependencies.task_registry.start,
            sleep=asyncio.sleep,
            now_ms=clock.now_ms,
            new_topic_id=_new_topic_id,
            initial_features=self._initial_features,
            on_controller_changed=lambda: self.controller_client.on_controller_change(),
        )

    @property
    def _initial_features(self) -> Mapping[str, int]:
        """Features that a new cluster starts with.

        On ZooKeeper there are none: a Kafka 3.9 broker in the same cluster exits when it finds a
        feature that it does not support.
        """
        is_alone = self._dependencies.settings.current.uses_embedded_store
        return {name: each.high for name, each in SUPPORTED_FEATURES.items()} if is_alone else {}

    def _create_controller_channel(self, broker: Broker) -> BrokerConnection:
        """Connect to the control plane listener if one is set; all brokers use the same name."""
        current, listener = (
            self._dependencies.settings.current,
            self._broker_identity.control_plane_listener,
        )
        endpoint = next(each for each in broker.registration.endpoints if each.listener == listener)
        client = BrokerClient(
            endpoint.host,
            endpoint.port,
            client_id=str(self._dependencies.broker_id),
            timeout_s=current.broker.controller_socket_timeout_ms / 1000,
            local_connections=self._dependencies.local_connections
            if broker.id == self._dependencies.broker_id
            else None,
            counter=self.outgoing_connections.counter(f"controller to broker {broker.id}"),
        )
        return cast(BrokerConnection, client)

    def _create_clients(self, purpose: str, *, timeout_ms: int | None = None) -> BrokerClients:
        return BrokerClients(partial(self.create_client, purpose=purpose, timeout_ms=timeout_ms))

    def create_client(
        self, node: Node, *, purpose: str, timeout_ms: int | None = None
    ) -> BrokerClient | LoopbackClient:
        """Create the client for requests that this broker sends to another broker or to itself."""
        current, client_id = self._dependencies.settings.current, str(self._dependencies.broker_id)
        if node.id == self._dependencies.broker_id:
            return LoopbackClient(
                lambda: self.routes,
                client_id=client_id,
                listener=current.network.inter_broker_listener,
                start_task=self._dependencies.task_registry.start,
            )
        return BrokerClient(
            node.host,
            node.port,
            client_id=client_id,
            timeout_s=(timeout_ms or current.broker.request_timeout_ms) / 1000,
            counter=self.outgoing_connections.counter(f"{purpose} {node.id}"),
        )

    def _topic_defaults(self) -> TopicDefaults:
        current = self._dependencies.settings.current
        return TopicDefaults(
            num_partitions=current.broker.num_partitions,
            replication_factor=current.broker.default_replication_factor,
            server_settings=current.topic_default_tables,
        )


def _new_uuid() -> str:
    return str(uuid4())


def _new_topic_id() -> Uuid:
    return random_topic_id(_random)
