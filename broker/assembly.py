"""The parts of a broker that serve requests, put together; nothing is started here.

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
from odradek.broker.admin.config_admin import BrokerConfigAdmin
from odradek.broker.admin.config_descriptions import ConfigDescriptions
from odradek.broker.background import Background
from odradek.broker.controller_client import ControllerClient
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_count import PartitionCount
from odradek.broker.coordinator.partition_log import LogOptions, Means
from odradek.broker.disk import Disk
from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.broker.groups.consumer.topics import TopicsLens
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.old_offsets import OldOffsets
from odradek.broker.groups.world import World
from odradek.broker.handlers import find_coordinator
from odradek.broker.identity import registration_of
from odradek.broker.log_care import LogCare
from odradek.broker.metadata.agreed_features import AgreedFeatures
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.metadata.picture import Node
from odradek.broker.metadata.topic_creator import TopicCreator
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.network.client import BrokerClient
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.outgoing import Outgoing
from odradek.broker.network.own_connections import OwnConnections
from odradek.broker.own_client import OwnClient
from odradek.broker.record_reader import RecordReader
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.broker.replicas.fetcher import Ground as FetcherGround
from odradek.broker.replicas.fetchers import Fetchers
from odradek.broker.replicas.in_sync import InSyncReplicas
from odradek.broker.replicas.log_dir_move import LogDirMoves
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.replicas.throttles import ReplicationThrottles
from odradek.broker.routes import routes
from odradek.broker.services import Services
from odradek.broker.settings.dynamic import CareSettings, DynamicSettings
from odradek.broker.settings.topic_configs import TopicConfigs
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.marker_link import MarkerLinks
from odradek.broker.transactions.markers import Markers
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.transactions.verification import Verifier
from odradek.broker.transactions.world import TransactionWorld
from odradek.broker.worker import Worker
from odradek.controller.broker_link import BrokerLink
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.context import Broker
from odradek.controller.controller import Controller
from odradek.controller.feature_updates import SUPPORTED
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.registration import Identity
from odradek.controller.store.base import MetadataStore
from odradek.controller.tenure import ControllerWorld
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_requests import TopicDefaults
from odradek.protocol.types import Uuid
from odradek.storage.manager.log_manager import LogManager

_random = SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the parts stand on."""

    broker_id: int
    cluster_id: str
    settings: DynamicSettings
    store: MetadataStore
    logs: LogManager
    disk: Disk
    worker: Worker
    reader: RecordReader
    background: Background
    #: What others are told of where this broker listens.
    advertised: Sequence[Endpoint]
    own_connections: OwnConnections


class Assembly:
    """A broker's parts."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        settings, store = ground.settings, ground.store
        self.cluster = MetadataCache(ground.cluster_id)
        self.outgoing = Outgoing()
        self.care = LogCare(
            ground.logs,
            CareSettings(settings),
            disk=ground.disk,
            worker=ground.worker,
            now_ms=clock.now_ms,
        )
        self.replicas = ReplicaManager(
            ground.broker_id,
            ground.logs,
            self.cluster,
            care=self.care,
            start=ground.background.start,
            now_ms=clock.now_ms,
        )
        self.throttles = ReplicationThrottles.following(settings, broker_id=ground.broker_id)
        self.replicas.moves = self.moves = self._moves()
        self.moves.rate = self.throttles.moves
        self._own = self._identity()
        self.controller = Controller(store, self._own, settings.current.controller, self._world())
        self.controller_client = self._controller_client()
        self.fetchers = self._replicate()
        self._topic_admin = TopicAdmin(
            store,
            MetadataReads(store),
            defaults=self._topic_defaults,
            random=_random,
            new_topic_id=_new_topic_id,
            finds=self._own.finds,
        )
        self._topic_creator = TopicCreator(
            self._topic_admin,
            is_enabled=lambda: settings.current.broker.auto_create_topics_enable,
            internal=lambda name: settings.current.internal_topics.entry(name),
            start=ground.background.start,
        )
        self.groups = self._groups()
        self.replicas.roles[CONSUMER_OFFSETS] = self.groups.shards
        self.producer_ids = ProducerIds(self.controller_client.allocate_producer_ids)
        self.features = AgreedFeatures(store, start_task=ground.background.start)
        self.transactions = self._transactions()
        self.replicas.roles[TRANSACTION_STATE] = self.transactions.shards
        self.services = self._services()
        self.routes = routes(self.services)

    def _moves(self) -> LogDirMoves:
        ground = self._ground
        return LogDirMoves(
            self.replicas,
            ground.logs,
            care=self.care,
            disk=ground.disk,
            start=ground.background.start,
            now_ms=clock.now_ms,
        )

    def _controller_client(self) -> ControllerClient:
        ground = self._ground
        current = ground.settings.current
        listener = current.network.inter_broker_listener
        timeout_ms = current.broker.controller_socket_timeout_ms
        return ControllerClient(
            Node(ground.broker_id, "", -1, None),
            controller_id=lambda: self.controller.controller_id,
            nodes=lambda: self.cluster.nodes(listener),
            clients=self._clients("questions to controller", timeout_ms=timeout_ms),
            broker_epoch=lambda: self.controller.broker_epoch,
        )

    def _replicate(self) -> Fetchers:
        """What this broker leads has in-sync replicas, and what it follows is fetched."""
        ground = self._ground
        current = ground.settings.current
        self.replicas.in_sync = InSyncReplicas(
            self.cluster,
            self.controller_client,
            lag_max_ms=lambda: ground.settings.current.replication.lag_time_max_ms,
            now_ms=clock.steady_ms,
            start=ground.background.start,
        )
        self.replicas.fetchers = fetchers = Fetchers(
            FetcherGround(
                broker_id=ground.broker_id,
                logs=ground.logs,
                care=self.care,
                settings=lambda: ground.settings.current.replication,
                broker_epoch=lambda: self.controller.broker_epoch,
                now_ms=clock.now_ms,
                throttle=self.throttles.follower,
            ),
            self.cluster,
            listener=current.network.inter_broker_listener,
            connect=self._fetching_client,
            start=ground.background.start,
        )
        self.cluster.listeners.append(fetchers.picture_changed)
        return fetchers

    def _fetching_client(self, node: Node) -> BrokerClient:
        return BrokerClient(
            node.host,
            node.port,
            client_id=f"broker-{self._ground.broker_id}-fetcher",
            timeout_s=self._ground.settings.current.replication.socket_timeout_ms / 1000,
            tally=self.outgoing.tally(f"fetches from broker {node.id}"),
        )

    def _groups(self) -> GroupCoordinator:
        settings = self._ground.settings
        lookup = self._lookup(
            CONSUMER_OFFSETS, lambda: settings.current.internal_topics.offsets_partitions
        )
        options = settings.current.groups
        world = World(
            options,
            asyncio.get_running_loop(),
            clock.now_ms,
            _new_id,
            settings.current.consumer_groups,
            TopicsLens(lambda: self.cluster.picture),
            settings.groups,
        )
        return GroupCoordinator(lookup, world, self._means(options))

    def _transactions(self) -> TransactionCoordinator:
        ground, settings = self._ground, self._ground.settings
        lookup = self._lookup(
            TRANSACTION_STATE, lambda: settings.current.internal_topics.transactions_partitions
        )
        options, start = settings.current.transactions, ground.background.start
        world = TransactionWorld(
            options,
            clock.now_ms,
            self.producer_ids,
            lambda: self.features.current.transaction_version,
            start,
            asyncio.sleep,
        )
        markers = Markers(
            self.cluster,
            world,
            MarkerLinks(self._clients("markers to broker"), start),
            listener=settings.current.network.inter_broker_listener,
            has_partition=MetadataReads(ground.store).has_partition,
        )
        return TransactionCoordinator(lookup, world, self._means(options), markers)

    def _lookup(self, topic: str, configured_count: Callable[[], int]) -> CoordinatorLookup:
        start = self._ground.background.start
        count = PartitionCount(topic, MetadataReads(self._ground.store), start=start)
        lookup = CoordinatorLookup(
            topic, self.cluster, self._topic_creator, count, configured_count, start
        )
        self.cluster.topic_listeners[topic] = lookup.topic_changed
        return lookup

    def _means(self, options: LogOptions) -> Means:
        """What was loaded need not be looked through for garbage, until some of it is."""
        return Means(
            options,
            clock.now_ms,
            self._ground.background.start,
            self._ground.disk.run_in,
            has_loaded=gc.freeze,
            has_dropped=gc.unfreeze,
        )

    def _services(self) -> Services:
        ground = self._ground
        settings, store = ground.settings, ground.store
        config_tree = ConfigAdmin(store, server=lambda: settings.current.defaults_of_topics)
        return Services(
            settings=settings,
            replicas=self.replicas,
            throttles=self.throttles,
            moves=self.moves,
            logs=ground.logs,
            disk=ground.disk,
            reader=ground.reader,
            cluster=self.cluster,
            features=self.features,
            controller=self.controller,
            fence=ControllerFence(lambda: self.controller.broker_epoch),
            fetch_sessions=FetchSessions(
                slots=settings.current.broker.fetch_session_slots, now_ms=clock.steady_ms
            ),
            topic_admin=self._topic_admin,
            topic_creator=self._topic_creator,
            config_descriptions=ConfigDescriptions(
                settings, store, broker_id=ground.broker_id, has_topic=self.cluster.has_topic
            ),
            config_admin=BrokerConfigAdmin(config_tree, settings, broker_id=ground.broker_id),
            topic_configs=TopicConfigs(settings, store),
            producer_ids=self.producer_ids,
            verifier=Verifier(
                self.transactions.lookup,
                self._clients("verifications by broker"),
                listener=settings.current.network.inter_broker_listener,
                start=ground.background.start,
            ),
            groups=self.groups,
            transactions=self.transactions,
            old_offsets=OldOffsets(store),
            coordinators={
                find_coordinator.GROUP: self.groups.lookup,
                find_coordinator.TRANSACTION: self.transactions.lookup,
            },
            now_ms=clock.now_ms,
        )

    def _identity(self) -> Identity:
        current, ground = self._ground.settings.current, self._ground
        registration = registration_of(current, ground.advertised, timestamp_ms=clock.now_ms())
        inter_broker = current.network.inter_broker_listener
        control = current.network.control_plane_listener or inter_broker
        return Identity(ground.broker_id, registration, inter_broker, control)

    def _world(self) -> ControllerWorld:
        return ControllerWorld(
            connect=self._link_to,
            start_task=self._ground.background.start,
            sleep=asyncio.sleep,
            now_ms=clock.now_ms,
            new_topic_id=_new_topic_id,
            first_features=self._first_features,
            controller_changed=lambda: self.controller_client.controller_changed(),
        )

    @property
    def _first_features(self) -> Mapping[str, int]:
        """A broker of Kafka 3.9 in the same cluster would exit at a feature that it has not."""
        is_alone = self._ground.settings.current.is_alone
        return {name: each.high for name, each in SUPPORTED.items()} if is_alone else {}

    def _link_to(self, broker: Broker) -> BrokerLink:
        """By the control plane, if there is one; every broker of a cluster has the same."""
        current, listener = self._ground.settings.current, self._own.control_listener
        found = next(each for each in broker.registration.endpoints if each.listener == listener)
        client = BrokerClient(
            found.host,
            found.port,
            client_id=str(self._ground.broker_id),
            timeout_s=current.broker.controller_socket_timeout_ms / 1000,
            own=self._ground.own_connections if broker.id == self._ground.broker_id else None,
            tally=self.outgoing.tally(f"controller to broker {broker.id}"),
        )
        return cast(BrokerLink, client)

    def _clients(self, purpose: str, *, timeout_ms: int | None = None) -> BrokerClients:
        return BrokerClients(partial(self.client_of, purpose=purpose, timeout_ms=timeout_ms))

    def client_of(
        self, node: Node, *, purpose: str, timeout_ms: int | None = None
    ) -> BrokerClient | OwnClient:
        """By which this broker asks another, or itself, for what clients want of it."""
        current, client_id = self._ground.settings.current, str(self._ground.broker_id)
        if node.id == self._ground.broker_id:
            return OwnClient(
                lambda: self.routes,
                client_id=client_id,
                listener=current.network.inter_broker_listener,
                start=self._ground.background.start,
            )
        return BrokerClient(
            node.host,
            node.port,
            client_id=client_id,
            timeout_s=(timeout_ms or current.broker.request_timeout_ms) / 1000,
            tally=self.outgoing.tally(f"{purpose} {node.id}"),
        )

    def _topic_defaults(self) -> TopicDefaults:
        current = self._ground.settings.current
        return TopicDefaults(
            partitions=current.broker.num_partitions,
            replication_factor=current.broker.default_replication_factor,
            server=current.defaults_of_topics,
        )


def _new_id() -> str:
    return str(uuid4())


def _new_topic_id() -> Uuid:
    return random_topic_id(_random)
