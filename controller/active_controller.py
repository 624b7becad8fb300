"""The controller of the cluster on one broker, from its election to its resignation.

All state of the controller and all its work in progress belongs to one ActiveController and ends
with it.  The next controller starts from the metadata store alone.  Kafka:
KafkaController.onControllerFailover and onControllerResignation.  Failover runs in this order:

    features       load the finalized features that brokers must support
    notifications  delete old notifications: failover reads everything that they could report
    brokers        load the live brokers and open a channel to each
    topics         load partitions, leaders and ISRs, and the topics marked for deletion
    metadata       send UpdateMetadata, because a broker follows only leaders that it knows
    state machines initialize replica and partition states; elect missing leaders
    resumed work   continue reassignments, deletions and elections of the previous controller

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from odradek.controller import events
from odradek.controller.broker_changes import BrokerChanges, BrokerRequirements, ResumableWork
from odradek.controller.control_request_builder import ControlRequestBuilder
from odradek.controller.controller_channel import (
    BrokerConnection,
    ChannelEnvironment,
    ControllerChannelManager,
    StartTask,
)
from odradek.controller.controller_context import Broker, ControllerContext
from odradek.controller.controller_event_manager import ControllerEventManager
from odradek.controller.controller_responses import ControllerResponseHandler
from odradek.controller.controller_services import ControllerServices
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.controller_znode import ControllerEpochAndVersion
from odradek.controller.features import ClusterFeatures
from odradek.controller.isr_changes import IsrChanges
from odradek.controller.log_dir_failures import LogDirFailures
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_version import RequestVersions
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.offline_replicas import OfflineReplicaHandler
from odradek.controller.partition_state_machine import ElectionRules, PartitionStateMachine
from odradek.controller.reassignment import PartitionReassignmentManager
from odradek.controller.registration import BrokerIdentity
from odradek.controller.replica_leader_elections import ReplicaLeaderElections
from odradek.controller.replica_state_machine import ReplicaStateMachine
from odradek.controller.request_batch import ControllerBrokerRequestBatch
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_changes import TopicChanges
from odradek.controller.topic_deletion_manager import TopicDeletionManager
from odradek.controller.topic_deletion_requests import TopicDeletionRequests
from odradek.controller.znode_change_handlers import ZNodeChangeHandlers
from odradek.protocol.types import Uuid

log = logging.getLogger("kafka.controller")

#: Kafka waits as long before the first check of the leader imbalance.
AUTO_LEADER_REBALANCE_INITIAL_DELAY_S = 5


@dataclass(frozen=True, slots=True)
class ControllerEnvironment:
    """The runtime services that the controller uses: connections, tasks, clock, ids, callbacks."""

    connect: Callable[[Broker], BrokerConnection]
    start_task: StartTask
    sleep: Callable[[float], Awaitable[None]]
    now_ms: Callable[[], int]
    new_topic_id: Callable[[], Uuid]
    #: The finalized features of a new cluster.
    initial_features: Mapping[str, int] = field(default_factory=dict)
    #: Called when the known controller id changes, also to "no controller".
    on_controller_changed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """The dependencies that successive ActiveController instances share."""

    store: MetadataStore
    identity: BrokerIdentity
    settings: Callable[[], ControllerSettings]
    environment: ControllerEnvironment
    event_manager: ControllerEventManager
    change_handlers: ZNodeChangeHandlers


class ActiveController:
    """Builds the parts of the controller and connects them."""

    def __init__(
        self, dependencies: ControllerDependencies, controller_epoch: ControllerEpochAndVersion
    ) -> None:
        self.controller_epoch = controller_epoch
        self.dependencies = dependencies
        self._auto_leader_rebalance_task: asyncio.Task[None] | None = None
        change_handlers, settings = dependencies.change_handlers, dependencies.settings()
        self.channel_manager = ControllerChannelManager(_channel_environment(dependencies))
        self.services = services = _build_services(
            dependencies, controller_epoch, self.channel_manager
        )
        self.context = services.context
        self.topic_deletion_manager = TopicDeletionManager(services)
        self.topic_deletion_requests = TopicDeletionRequests(
            services,
            self.topic_deletion_manager,
            change_handlers.on_topic_deletion,
            is_enabled=settings.delete_topic_enable,
        )
        self.partition_reassignment_manager = PartitionReassignmentManager(
            services, self.topic_deletion_manager, change_handlers.on_zk_partition_reassignment
        )
        self.features = ClusterFeatures(
            services.reader,
            services.writer,
            settings.metadata_version,
            dependencies.environment.initial_features,
        )
        offline_replica_handler = OfflineReplicaHandler(services, self.topic_deletion_manager)
        resumable_work = ResumableWork(
            self.topic_deletion_manager, self.partition_reassignment_manager
        )
        requirements = BrokerRequirements(
            self.features, dependencies.identity.has_required_listeners
        )
        self.broker_changes = BrokerChanges(
            services,
            self.channel_manager,
            change_handlers,
            requirements,
            offline_replica_handler,
            resumable_work,
        )
        new_topic_id = (
            dependencies.environment.new_topic_id
            if settings.metadata_version.is_topic_ids_supported
            else None
        )
        self.topic_changes = TopicChanges(services, change_handlers, new_topic_id)
        self.isr_changes = IsrChanges(services, change_handlers.on_isr_change_notification)
        self.log_dir_failures = LogDirFailures(
            services, change_handlers.on_log_dir_event_notification, offline_replica_handler
        )
        self.replica_leader_elections = ReplicaLeaderElections(
            services, change_handlers.on_zk_preferred_replica_election
        )
        self.response_handler = ControllerResponseHandler(
            self.context, self.log_dir_failures, self.topic_deletion_manager
        )

    async def on_controller_failover(self) -> None:
        await self.features.load()
        await self.isr_changes.delete_isr_change_notifications()
        await self.log_dir_failures.delete_log_dir_event_notifications()
        await self.broker_changes.load()
        await self.topic_changes.load()
        await self.topic_deletion_requests.process_topic_deletion()
        batch = self.services.request_batch
        batch.add_update_metadata_request()
        batch.send_requests_to_brokers()
        await self.services.replica_state_machine.start()
        await self.services.partition_state_machine.start()
        log.info("Ready to serve as the new controller with epoch %d", self.controller_epoch.epoch)
        await self.partition_reassignment_manager.start()
        await self.topic_deletion_manager.start()
        await self.replica_leader_elections.process_preferred_replica_election()
        if self.dependencies.settings().auto_leader_rebalance_enable:
            rebalance_loop = self._schedule_auto_leader_rebalance()
            self._auto_leader_rebalance_task = self.dependencies.environment.start_task(
                rebalance_loop, name="controller-balance"
            )

    def on_controller_resignation(self) -> None:
        """Drop queued requests, close the channels and stop the rebalance task; write nothing."""
        self.services.request_batch.clear()
        self.channel_manager.close()
        if self._auto_leader_rebalance_task is not None:
            self._auto_leader_rebalance_task.cancel()

    async def _schedule_auto_leader_rebalance(self) -> None:
        delay_s = AUTO_LEADER_REBALANCE_INITIAL_DELAY_S
        while True:
            await self.dependencies.environment.sleep(delay_s)
            self.dependencies.event_manager.put_if_absent(
                events.AutoPreferredReplicaLeaderElection(self.controller_epoch.epoch)
            )
            delay_s = self.dependencies.settings().leader_imbalance_check_interval_seconds


def _channel_environment(dependencies: ControllerDependencies) -> ChannelEnvironment:
    environment = dependencies.environment
    return ChannelEnvironment(
        connect=environment.connect,
        start_task=environment.start_task,
        sleep=environment.sleep,
        on_response=lambda broker_response: dependencies.event_manager.put(
            events.ControlResponseReceived(broker_response)
        ),
    )


def _build_services(
    dependencies: ControllerDependencies,
    controller_epoch: ControllerEpochAndVersion,
    channel_manager: ControllerChannelManager,
) -> ControllerServices:
    metadata_version = dependencies.settings().metadata_version
    context = ControllerContext()
    context.epoch, context.epoch_zk_version = (
        controller_epoch.epoch,
        controller_epoch.epoch_zk_version,
    )
    reader = MetadataReader(dependencies.store)
    writer = MetadataWriter(dependencies.store, context, reader)
    request_builder = ControlRequestBuilder(
        context,
        controller_id=dependencies.identity.broker_id,
        versions=RequestVersions.for_metadata_version(metadata_version),
        inter_broker_listener=dependencies.identity.inter_broker_listener,
    )
    request_batch = ControllerBrokerRequestBatch(context, request_builder, channel_manager)
    election_rules = ElectionRules(
        allows_unclean=lambda: dependencies.settings().unclean_leader_election_enable,
        is_leader_recovery_supported=metadata_version.is_leader_recovery_supported,
    )
    partition_state_machine = PartitionStateMachine(
        context, reader, writer, request_batch, election_rules
    )
    replica_state_machine = ReplicaStateMachine(context, reader, writer, request_batch)
    return ControllerServices(
        context, reader, writer, request_batch, partition_state_machine, replica_state_machine
    )
