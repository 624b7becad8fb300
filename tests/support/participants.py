"""Partitions in memory that take part in transactions, and the way of markers to them.

Each keeps what storage keeps of a producer: the epoch that it has last heard of, and whether it has
a transaction open.  Records are whatever a test says that they are.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.request import DelayedOperation
from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition

Marker = WriteTxnMarkersRequest.Marker


class Sent(NamedTuple):
    """A marker as a partition got it."""

    producer: ProducerIdAndEpoch
    is_commit: bool
    coordinator_epoch: int


class ParticipantLog:
    """One partition."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        #: By producer id, the records of its open transaction.
        self.open: dict[int, list[Any]] = {}
        self.committed: list[Any] = []
        self.aborted: list[Any] = []
        self.markers: list[Sent] = []

    def append(self, producer: ProducerIdAndEpoch, record: Any) -> bool:
        """Refused if the producer is known to be another by now."""
        if producer.epoch < self.epochs.get(producer.id, -1):
            return False
        self.epochs[producer.id] = producer.epoch
        self.open.setdefault(producer.id, []).append(record)
        return True

    def mark(self, marker: Sent) -> ErrorCode:
        producer_id, epoch = marker.producer
        if epoch < self.epochs.get(producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = epoch
        self.markers.append(marker)
        ended = self.committed if marker.is_commit else self.aborted
        ended += self.open.pop(producer_id, [])
        return ErrorCode.NONE


class Participants:
    """The cluster, as far as markers go, and the links to its brokers."""

    def __init__(self) -> None:
        #: Called before anything is written.
        self.on_write: Callable[[], None] = lambda: None
        self.node = Node(1, "here", 9092, None)
        self.other = Node(2, "there", 9092, None)
        self.logs: defaultdict[TopicPartition, ParticipantLog] = defaultdict(ParticipantLog)
        #: Partitions that are deleted, and topics that are there and not known of yet.
        self.deleted: set[TopicPartition] = set()
        self.unknown: set[str] = set()
        #: Partitions that nobody leads.
        self.leaderless: set[TopicPartition] = set()
        #: So many requests will get no answer.
        self.lost = 0
        #: What a partition will say, one after the other, instead of taking the marker.
        self.refusals: defaultdict[TopicPartition, list[ErrorCode]] = defaultdict(list)
        self.is_closed = False
        #: Whether the coordinator's broker leads them, but for some, and writes in the same call.
        self.is_here = False
        self.elsewhere: set[TopicPartition] = set()

    def partition(self, topic: str, partition: int) -> Any:
        is_known = topic not in self.unknown and (topic, partition) not in self.deleted
        return object() if is_known else None

    def leader_node(self, topic: str, partition: int, *, listener: str) -> Node | None:
        assert listener == "INSIDE"
        if (topic, partition) in self.leaderless or not self.partition(topic, partition):
            return None
        return self.other if (topic, partition) in self.elsewhere else self.node

    async def has_partition(self, partition: TopicPartition) -> bool:
        return partition not in self.deleted

    def write(
        self, node: Node, marker: Marker
    ) -> dict[TopicPartition, int] | Awaitable[dict[TopicPartition, int]]:
        written = partial(self._written, marker)
        is_here = self.is_here and node == self.node
        return written() if is_here else DelayedOperation(partial(_there, written))

    def _written(self, marker: Marker) -> dict[TopicPartition, int]:
        if self.lost:
            self.lost -= 1
            return {}
        sent = Sent(
            ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch),
            marker.transaction_result,
            marker.coordinator_epoch,
        )
        return {
            where: self._mark(where, sent).code
            for topic in marker.topics
            for where in (TopicPartition(topic.name, each) for each in topic.partition_indexes)
        }

    def _mark(self, where: TopicPartition, sent: Sent) -> ErrorCode:
        if self.refusals[where]:
            return self.refusals[where].pop(0)
        self.on_write()
        return self.logs[where].mark(sent)

    def append(self, where: TopicPartition, producer: ProducerIdAndEpoch, record: Any) -> bool:
        """False if the partition refuses."""
        self.on_write()
        return self.logs[where].append(producer, record)

    def close(self) -> None:
        self.is_closed = True


async def _there(written: Callable[[], dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    return written()
