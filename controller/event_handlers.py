"""The table from controller event to its handler.  Kafka: KafkaController.process.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from odradek.controller import alter_partition, events, producer_ids
from odradek.controller.active_controller import ActiveController
from odradek.controller.controlled_shutdown import process_controlled_shutdown
from odradek.controller.feature_updates import FeatureUpdateResults
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.protocol.api.alter_partition import AlterPartitionResponse

#: event type -> handler, which returns the result of a submitted event
EVENT_HANDLERS: Mapping[type, Callable[[ActiveController, Any], Awaitable[Any]]] = {
    events.BrokerChange: lambda controller, _: controller.broker_changes.process_broker_change(),
    events.BrokerModifications: lambda controller, event: (
        controller.broker_changes.process_broker_modification(event.broker_id)
    ),
    events.TopicChange: lambda controller, _: controller.topic_changes.process_topic_change(),
    events.PartitionModifications: lambda controller, _: (
        controller.topic_changes.process_partition_modifications()
    ),
    events.TopicDeletion: lambda controller, _: (
        controller.topic_deletion_requests.process_topic_deletion()
    ),
    events.ZkPartitionReassignment: lambda controller, _: (
        controller.partition_reassignment_manager.process_zk_partition_reassignment()
    ),
    events.ZkPreferredReplicaElection: lambda controller, _: (
        controller.replica_leader_elections.process_preferred_replica_election()
    ),
    events.IsrChangeNotification: lambda controller, _: _isr_change_notification(controller),
    events.LogDirEventNotification: lambda controller, _: (
        controller.log_dir_failures.process_log_dir_event_notification()
    ),
    events.ControlResponseReceived: lambda controller, event: controller.response_handler.handle(
        event.broker_response
    ),
    events.AlterPartitionReceived: lambda controller, event: _alter_partition(controller, event),
    events.ControlledShutdown: lambda controller, event: process_controlled_shutdown(
        controller.services, event.broker_id, broker_epoch=event.broker_epoch
    ),
    events.AllocateProducerIds: lambda controller, event: producer_ids.allocate(
        controller.services, event.broker_id, broker_epoch=event.broker_epoch
    ),
    events.PartitionReassignmentIsrChange: lambda controller, event: (
        controller.partition_reassignment_manager.process_partition_reassignment_isr_change(
            event.partitions
        )
    ),
    events.ReplicaLeaderElection: lambda controller, event: (
        controller.replica_leader_elections.process_replica_leader_election(
            event.election_type, event.partitions
        )
    ),
    events.ApiPartitionReassignment: lambda controller, event: (
        controller.partition_reassignment_manager.alter_partition_reassignments(
            event.reassignments,
            allow_replication_factor_change=event.allow_replication_factor_change,
        )
    ),
    events.ListPartitionReassignments: lambda controller, event: _list_partition_reassignments(
        controller, event
    ),
    events.UpdateFeatures: lambda controller, event: _update_features(controller, event),
    events.UncleanLeaderElectionEnable: lambda controller, event: (
        controller.services.partition_state_machine.trigger_online_partition_state_change(
            event.topic
        )
    ),
    events.AutoPreferredReplicaLeaderElection: lambda controller, event: (
        _auto_preferred_replica_leader_election(controller, event)
    ),
}


async def _alter_partition(
    active_controller: ActiveController, event: events.AlterPartitionReceived
) -> AlterPartitionResponse:
    request, version, context = event.request, event.version, active_controller.context
    active_controller.isr_changes.check_broker_epoch(
        request.broker_id, broker_epoch=request.broker_epoch
    )
    proposals = alter_partition.parse_proposals(request, version, context)
    results = await active_controller.isr_changes.process_alter_partition(proposals)
    updated = [
        partition
        for partition, result in results.items()
        if isinstance(result, LeaderIsrAndControllerEpoch)
    ]
    if reassigning := tuple(
        partition for partition in updated if partition in context.partitions_being_reassigned
    ):
        # Queued, because the leader waits for the response to this request.
        active_controller.dependencies.event_manager.put(
            events.PartitionReassignmentIsrChange(reassigning)
        )
    return alter_partition.build_response(request, version, results, context)


async def _isr_change_notification(active_controller: ActiveController) -> None:
    changed = await active_controller.isr_changes.process_isr_change_notification()
    if reassigning := [
        partition
        for partition in changed
        if partition in active_controller.context.partitions_being_reassigned
    ]:
        manager = active_controller.partition_reassignment_manager
        await manager.process_partition_reassignment_isr_change(reassigning)


async def _list_partition_reassignments(
    active_controller: ActiveController, event: events.ListPartitionReassignments
) -> object:
    return active_controller.partition_reassignment_manager.list_partition_reassignments(
        event.partitions
    )


async def _update_features(
    active_controller: ActiveController, event: events.UpdateFeatures
) -> FeatureUpdateResults:
    brokers = [broker.registration for broker in active_controller.context.brokers.values()]
    return await active_controller.features.update(
        event.updates, brokers, is_atomic=event.is_atomic, should_write=event.should_write
    )


async def _auto_preferred_replica_leader_election(
    active_controller: ActiveController, event: events.AutoPreferredReplicaLeaderElection
) -> None:
    if event.epoch == active_controller.controller_epoch.epoch:
        percentage = (
            active_controller.dependencies.settings().leader_imbalance_per_broker_percentage
        )
        await active_controller.replica_leader_elections.check_and_trigger_auto_leader_rebalance(
            percentage=percentage
        )
