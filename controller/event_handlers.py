"""Whose affair is which event?  The one table of all that a controller in office reacts to.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from odradek.controller import alter_partition, events, producer_ids
from odradek.controller.controlled_shutdown import shut_down
from odradek.controller.feature_updates import Outcomes
from odradek.controller.leadership import Leadership
from odradek.controller.tenure import Tenure
from odradek.protocol.api.alter_partition import AlterPartitionResponse

#: event -> what a controller in office does about it, and answers if it was asked
DUTIES: Mapping[type, Callable[[Tenure, Any], Awaitable[Any]]] = {
    events.BrokersChanged: lambda tenure, _: tenure.brokers.look(),
    events.BrokerChanged: lambda tenure, event: tenure.brokers.look_at(event.broker),
    events.TopicsChanged: lambda tenure, _: tenure.topics.look(),
    events.TopicNodesChanged: lambda tenure, _: tenure.topics.look_at_changed(),
    events.DeletionsChanged: lambda tenure, _: tenure.deletion_requests.look(),
    events.ReassignmentsChanged: lambda tenure, _: tenure.reassignments.from_node(),
    events.PreferredElectionsChanged: lambda tenure, _: tenure.preferred.look(),
    events.IsrNotified: lambda tenure, _: _isr_notified(tenure),
    events.LogDirNotified: lambda tenure, _: tenure.log_dirs.look(),
    events.Answered: lambda tenure, event: tenure.answers.received(event.answer),
    events.AlterPartition: lambda tenure, event: _alter_partition(tenure, event),
    events.ControlledShutdown: lambda tenure, event: shut_down(
        tenure.machinery, event.broker, broker_epoch=event.broker_epoch
    ),
    events.AllocateProducerIds: lambda tenure, event: producer_ids.allocate(
        tenure.machinery, event.broker, broker_epoch=event.broker_epoch
    ),
    events.IsrChanged: lambda tenure, event: tenure.reassignments.isr_changed(event.partitions),
    events.ElectLeaders: lambda tenure, event: tenure.preferred.elect(event.kind, event.partitions),
    events.AlterReassignments: lambda tenure, event: tenure.reassignments.alter(
        event.requested, may_change_factor=event.may_change_factor
    ),
    events.ListReassignments: lambda tenure, event: _listed(tenure, event),
    events.UpdateFeatures: lambda tenure, event: _update_features(tenure, event),
    events.UncleanElectionsAllowed: lambda tenure, event: tenure.machinery.partitions.elect_missing(
        event.topic
    ),
    events.BalanceDue: lambda tenure, event: _balance(tenure, event),
}


async def _alter_partition(tenure: Tenure, event: events.AlterPartition) -> AlterPartitionResponse:
    request, version, context = event.request, event.version, tenure.context
    tenure.isr.check_broker(request.broker_id, broker_epoch=request.broker_epoch)
    proposed = alter_partition.proposals(request, version, context)
    altered = await tenure.isr.alter(proposed)
    moved = [each for each, outcome in altered.items() if isinstance(outcome, Leadership)]
    if progressed := tuple(each for each in moved if each in context.reassigning):
        # Later, for the leader waits for its answer.
        tenure.office.queue.put(events.IsrChanged(progressed))
    return alter_partition.response(request, version, altered, context)


async def _isr_notified(tenure: Tenure) -> None:
    changed = await tenure.isr.look()
    if progressed := [each for each in changed if each in tenure.context.reassigning]:
        await tenure.reassignments.isr_changed(progressed)


async def _listed(tenure: Tenure, event: events.ListReassignments) -> object:
    return tenure.reassignments.listed(event.partitions)


async def _update_features(tenure: Tenure, event: events.UpdateFeatures) -> Outcomes:
    brokers = [each.registration for each in tenure.context.brokers.values()]
    return await tenure.features.update(
        event.updates, brokers, is_whole=event.is_whole, is_written=event.is_written
    )


async def _balance(tenure: Tenure, event: events.BalanceDue) -> None:
    if event.epoch == tenure.elected.epoch:
        percentage = tenure.office.settings().leader_imbalance_per_broker_percentage
        await tenure.preferred.balance(percentage=percentage)
