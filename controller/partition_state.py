"""The life of a partition, as the controller sees it.

A table of moves and nothing else: no store, no network, no clock.  The machine that acts on it is
in partition_machine.py.

Owner: none; immutable, any thread.
"""

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    NON_EXISTENT = "never created, or deleted"
    NEW = "has replicas, has no leader yet"
    ONLINE = "has a leader"
    OFFLINE = "its leader died"


#: state -> the states it may move to
VALID_TRANSITIONS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NON_EXISTENT: frozenset({PartitionState.NEW}),
    PartitionState.NEW: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.ONLINE: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.ONLINE, PartitionState.OFFLINE, PartitionState.NON_EXISTENT}
    ),
}
