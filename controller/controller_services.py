"""What every part of the controller works with: the picture, the store, the machines, the batch.

An event handler reads and writes the store through ``reads`` and ``writes``, changes the picture
through the machines, and leaves what brokers must be told in ``batch``, which is sent when the
event has been handled to its end.  It is sent before that, too, where what comes next must not come
first: a new controller, and whoever greets a new broker, tells who is there before whom to follow;
a reassignment tells brokers to let go of replicas before the tree forgets them.

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
    """Made when a broker becomes the controller, and thrown away when it is no longer."""

    context: ControllerContext
    reader: MetadataReader
    writer: MetadataWriter
    request_batch: ControllerBrokerRequestBatch
    partition_state_machine: PartitionStateMachine
    replica_state_machine: ReplicaStateMachine
