"""The states of a partition in the controller, and the valid transitions.  Kafka: PartitionState.

This module is only a table: no store, no network, no clock.  partition_state_machine.py performs
the transitions.

Owner: none; immutable, any thread.
"""

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    NON_EXISTENT = "never created, or deleted"
    NEW = "has replicas, but no leader and ISR yet"
    ONLINE = "has a leader"
    OFFLINE = "its leader failed"


#: state -> the valid next states
VALID_TRANSITIONS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NON_EXISTENT: frozenset({PartitionState.NEW}),
    PartitionState.NEW: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.ONLINE: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.ONLINE, PartitionState.OFFLINE, PartitionState.NON_EXISTENT}
    ),
}
