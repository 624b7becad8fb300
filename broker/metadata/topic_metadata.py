"""A topic as Metadata answers show it.

A leader is shown only if it is alive and has the listener that the client has come by.  What was
shown is kept with the topic, and shown again as long as the same brokers are alive: then an answer
costs a look-up for each topic, and its encoding.

Invariant: what is returned is shared between answers and must not be changed.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.broker.metadata.authorized_operations import NOT_ASKED_FOR
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.picture import Brokers, Node, PartitionState, Topic
from odradek.broker.turns import FEW, Turn
from odradek.controller.leadership import NO_LEADER
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.error_codes import ErrorCode

ShownTopic = MetadataResponse.Topic
ShownPartition = ShownTopic.Partition

NONE = ErrorCode.NONE.code
LEADER_NOT_AVAILABLE = ErrorCode.LEADER_NOT_AVAILABLE.code
LISTENER_NOT_FOUND = ErrorCode.LISTENER_NOT_FOUND.code
REPLICA_NOT_AVAILABLE = ErrorCode.REPLICA_NOT_AVAILABLE.code


class View(NamedTuple):
    """What an answer depends on beside the topic."""

    listener: str
    #: Whether replicas are left out that clients cannot reach, and missed, as in version 0.
    only_reachable: bool = False
    #: Whether clients know that a leader may lack a listener, as from version 6 on.
    tells_of_listeners: bool = True
    operations: int = NOT_ASKED_FOR

    @classmethod
    def of_version(cls, version: int, listener: str, operations: int = NOT_ASKED_FOR) -> View:
        return cls(listener, version == 0, version >= 6, operations)


def shown(topic: Topic, brokers: Brokers, view: View) -> ShownTopic:
    kept: tuple[Brokers, ShownTopic] | None = topic.views.get(view)
    if kept is not None and kept[0] is brokers:
        return kept[1]
    return _kept(topic, brokers, view, list(_partitions(topic, brokers, view)))


async def show_in_turns(topics: Iterable[Topic], brokers: Brokers, view: View) -> list[ShownTopic]:
    """The same, of many, or of such as have many partitions."""
    turn, all_shown = Turn(), []
    for topic in topics:
        kept = topic.views.get(view)
        if len(topic.partitions) > FEW and (kept is None or kept[0] is not brokers):
            partitions = await turn.listed(_partitions(topic, brokers, view))
            all_shown.append(_kept(topic, brokers, view, partitions))
        else:
            all_shown.append(shown(topic, brokers, view))
        if turn.is_over:
            await turn.next()
    return all_shown


def _kept(
    topic: Topic, brokers: Brokers, view: View, partitions: list[ShownPartition]
) -> ShownTopic:
    answer = ShownTopic(
        error_code=NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=view.operations,
    )
    topic.views[view] = brokers, answer
    return answer


def _partitions(topic: Topic, brokers: Brokers, view: View) -> Iterator[ShownPartition]:
    nodes = brokers.at(view.listener)
    partition = _reachable if view.only_reachable else _partition
    absent = LISTENER_NOT_FOUND if view.tells_of_listeners else LEADER_NOT_AVAILABLE
    for state in topic.partitions.values():
        is_alive = state.leader in brokers.ids
        yield partition(state, nodes, absent if is_alive else LEADER_NOT_AVAILABLE)


def _partition(state: PartitionState, nodes: Mapping[int, Node], absent: int) -> ShownPartition:
    """``absent`` is what to say if the leader is not among the nodes."""
    has_leader = state.leader in nodes
    return ShownPartition(
        error_code=NONE if has_leader else absent,
        partition_index=state.partition_index,
        leader_id=state.leader if has_leader else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=state.offline_replicas,
    )


def _reachable(state: PartitionState, nodes: Mapping[int, Node], absent: int) -> ShownPartition:
    partition = _partition(state, nodes, absent)
    partition.replica_nodes = [each for each in state.replicas if each in nodes]
    partition.isr_nodes = [each for each in state.isr if each in nodes]
    is_complete = len(partition.replica_nodes) + len(partition.isr_nodes) == (
        len(state.replicas) + len(state.isr)
    )
    if partition.error_code == NONE and not is_complete:
        partition.error_code = REPLICA_NOT_AVAILABLE
    return partition
