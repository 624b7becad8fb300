"""Handling of replicas that go offline because their broker or log directory failed.

Kafka: KafkaController.onReplicasBecomeOffline.  The controller elects new leaders for the
partitions that these replicas led, where another replica can lead.  It removes the replicas from
the ISR, and marks a replica whose topic is being deleted as ineligible for deletion.  All brokers
receive an UpdateMetadata request.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState


class TopicDeletions(Protocol):
    """The part of TopicDeletionManager that offline replicas need."""

    async def fail_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None: ...


class OfflineReplicaHandler:
    """Changes replicas that the controller context shows as not online to OFFLINE."""

    def __init__(
        self, services: ControllerServices, topic_deletion_manager: TopicDeletions
    ) -> None:
        self._context = services.context
        self._services = services
        self._topic_deletion_manager = topic_deletion_manager

    async def on_replicas_become_offline(self, replicas: Collection[PartitionAndReplica]) -> None:
        partitions = self._services.partition_state_machine
        topics_to_be_deleted = self._context.topics_to_be_deleted
        not_deleting = [
            each for each in replicas if each.partition.topic not in topics_to_be_deleted
        ]
        affected = dict.fromkeys(each.partition for each in not_deleting)
        await partitions.handle_state_changes(
            self._context.partitions_with_offline_leader(affected), PartitionState.OFFLINE
        )
        await partitions.trigger_online_partition_state_change()
        await self._services.replica_state_machine.handle_state_changes(
            not_deleting, ReplicaState.OFFLINE
        )
        deleting = [each for each in replicas if each.partition.topic in topics_to_be_deleted]
        if deleting:
            await self._topic_deletion_manager.fail_replica_deletion(deleting)
        self._services.request_batch.add_update_metadata_request()
