"""Finds the replicas that are offline because a log directory failed.

A broker creates a notification in the store, which says only that one of its log directories
failed.  The controller then sends LeaderAndIsr for all replicas of this broker.  The response has
KAFKA_STORAGE_ERROR for each partition that the broker cannot serve.  Every later LeaderAndIsr
response updates this state as well.

Kafka: KafkaController.processLogDirEventNotification and processLeaderAndIsrResponseReceived.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from odradek.controller.controller_channel import BrokerResponse
from odradek.controller.controller_context import ControllerContext, PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.offline_replicas import OfflineReplicaHandler
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import Watch
from odradek.protocol.api.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.controller")


class LogDirFailures:
    """Maintains the offline replicas of live brokers."""

    def __init__(
        self,
        services: ControllerServices,
        watch: Watch,
        offline_replica_handler: OfflineReplicaHandler,
    ) -> None:
        self._services = services
        self._context = services.context
        self._watch = watch
        self._offline_replica_handler = offline_replica_handler

    async def delete_log_dir_event_notifications(self) -> None:
        """Delete old notifications: a new controller sends LeaderAndIsr to all brokers anyway."""
        await self._delete_notifications(
            await self._services.reader.get_log_dir_event_notifications(self._watch)
        )

    async def process_log_dir_event_notification(self) -> None:
        """Send LeaderAndIsr for all replicas of the brokers that created notifications."""
        notifications = await self._services.reader.get_log_dir_event_notifications(self._watch)
        brokers = sorted({broker for broker in notifications.values() if broker is not None})
        if brokers:
            log.warning("Log directory failure on brokers %s", brokers)
        replicas = [
            replica
            for broker_id in brokers
            for replica in self._context.replicas_on_broker(broker_id)
        ]
        await self._services.replica_state_machine.handle_state_changes(
            replicas, ReplicaState.ONLINE
        )
        await self._delete_notifications(notifications)

    async def process_leader_and_isr_response(
        self, broker_response: BrokerResponse, response: LeaderAndIsrResponse
    ) -> None:
        """Mark replicas with a storage error as offline, and replicas without error as online."""
        previously_offline = self._context.replicas_on_offline_dirs.get(
            broker_response.broker_id, set()
        )
        offline = set(previously_offline)
        for partition, error in _partition_errors(response, self._context):
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                if broker_response.broker_id in self._context.assignment(partition).replicas:
                    offline.add(partition)
            elif error is ErrorCode.NONE:
                offline.discard(partition)
        self._context.replicas_on_offline_dirs[broker_response.broker_id] = offline
        if newly_offline := sorted(offline - previously_offline):
            log.warning(
                "Broker %d reported a storage error; marking %d replica(s) as offline",
                broker_response.broker_id,
                len(newly_offline),
            )
            await self._offline_replica_handler.on_replicas_become_offline(
                [
                    PartitionAndReplica(partition, broker_response.broker_id)
                    for partition in newly_offline
                ]
            )

    async def _delete_notifications(self, names: dict[str, int | None]) -> None:
        await self._services.writer.delete_notifications(paths.LOG_DIR_EVENTS, names)


def _partition_errors(
    response: LeaderAndIsrResponse, context: ControllerContext
) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """Later versions name topics by id; topics that were deleted meanwhile are skipped."""
    for each in response.partition_errors:
        yield (
            TopicPartition(each.topic_name, each.partition_index),
            ErrorCode.for_code(each.error_code),
        )
    for topic in response.topics:
        name = context.topic_names.get(topic.topic_id)
        if name is None:
            continue
        for each in topic.partition_errors:
            yield TopicPartition(name, each.partition_index), ErrorCode.for_code(each.error_code)
