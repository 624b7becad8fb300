"""The life of a replica, as the controller sees it.

A table of moves and nothing else: no store, no network, no clock.  The machine that acts on it is
in replica_machine.py.

Owner: none; immutable, any thread.
"""

from collections.abc import Mapping
from enum import Enum


class ReplicaState(Enum):
    NON_EXISTENT = "never created, or deleted"
    NEW = "created for a new partition or a reassignment; can only become a follower"
    ONLINE = "its broker is alive and knows of it"
    OFFLINE = "its broker or its log directory is not there"
    DELETION_STARTED = "its broker has been told to delete it"
    DELETION_SUCCESSFUL = "its broker has deleted it"
    DELETION_INELIGIBLE = "its broker could not delete it; to be tried again"


#: state -> the states it may move to
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
