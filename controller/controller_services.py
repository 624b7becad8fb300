"""The services that all event handlers of the controller share.

An event handler reads and writes the store through ``reader`` and ``writer``, changes the context
through the state machines, and adds requests to brokers to ``request_batch``.  The batch is sent
after the event was processed.  Two cases send it earlier, because the order matters.  A new
controller and a broker start-up send UpdateMetadata before LeaderAndIsr.  A reassignment sends
StopReplica before it deletes the replicas from the store.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.controller.controller_context import ControllerContext
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.partition_state_machine import PartitionStateMachine
from odradek.controller.replica_state_machine import ReplicaStateMachine
from odradek.controller.request_batch import ControllerBrokerRequestBatch


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """Created for each ActiveController and discarded with it."""

    context: ControllerContext
    reader: MetadataReader
    writer: MetadataWriter
    request_batch: ControllerBrokerRequestBatch
    partition_state_machine: PartitionStateMachine
    replica_state_machine: ReplicaStateMachine
