"""The states of a replica in the controller, and the valid transitions.  Kafka: ReplicaState.

This module is only a table: no store, no network, no clock.  replica_state_machine.py performs the
transitions.

Owner: none; immutable, any thread.
"""

from collections.abc import Mapping
from enum import Enum


class ReplicaState(Enum):
    NON_EXISTENT = "never created, or deleted"
    NEW = "created for a new partition or a reassignment; can only become a follower"
    ONLINE = "its broker is alive and has received LeaderAndIsr for it"
    OFFLINE = "its broker or its log directory is offline"
    DELETION_STARTED = "its broker is requested to delete it"
    DELETION_SUCCESSFUL = "its broker has deleted it"
    DELETION_INELIGIBLE = "its broker could not delete it; the deletion is retried"


#: state -> the valid next states
VALID_TRANSITIONS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.NEW}),
    ReplicaState.NEW: frozenset({ReplicaState.ONLINE, ReplicaState.OFFLINE}),
    ReplicaState.ONLINE: frozenset({ReplicaState.ONLINE, ReplicaState.OFFLINE}),
    ReplicaState.OFFLINE: frozenset(
        {
            ReplicaState.ONLINE,
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_INELIGIBLE,
        }
    ),
    ReplicaState.DELETION_STARTED: frozenset(
        {ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_INELIGIBLE}
    ),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.ONLINE, ReplicaState.OFFLINE}),
}
