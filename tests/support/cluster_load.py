"""Clients that go on whatever happens to a cluster, and what must be true of them in the end.

    with Load(cluster) as load:
        load.wait_for_more()
        ...
    check(cluster, load)

An idempotent producer with acks=all writes, a consumer reads, and another client asks who leads and
where the partitions end.

Owner: the thread of the test; while it runs, each of the clients has one of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from odradek.protocol.types import TopicPartition
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until
from tests.support.leader_watch import LeaderWatch
from tests.support.persistent_load import PersistentConsumer, PersistentProducer
from tests.support.persistent_load import check as check_clients

TOPIC = "events"
#: By default librdkafka looks every five minutes who leads, if a leader is only slow.
LOOK_OFTEN = {"topic.metadata.refresh.interval.ms": 500, "socket.timeout.ms": 4_000}
#: A leader that does not answer is soon given up.
PATIENCE = {"request.timeout.ms": 2_000, **LOOK_OFTEN}
#: librdkafka bumps the producer epoch when a leader changes between two requests in flight and the
#: second is out of order.  Batches of other partitions that were written but not acknowledged are
#: then sent with new sequence numbers, and are duplicates (confluentinc/librdkafka issue 4953).
#: With one request in flight no request is out of order.
ONE_IN_FLIGHT = {"max.in.flight.requests.per.connection": 1}


class Load:
    """On all partitions of a topic."""

    def __init__(
        self, cluster: Cluster, topic: str = TOPIC, *, partitions: int = 1, **more: Any
    ) -> None:
        self.topic, self.partitions = topic, partitions
        in_flight = ONE_IN_FLIGHT if partitions > 1 else {}
        self.producer = PersistentProducer(
            cluster.addresses,
            topic,
            name="load",
            partitions=partitions,
            **{**PATIENCE, **in_flight, **more},
        )
        self.consumer = PersistentConsumer(
            cluster.addresses, topic, partitions=partitions, **LOOK_OFTEN
        )
        self.watch = LeaderWatch(cluster.brokers, topic)
        #: What the test itself has written to the first partition.
        self.beside: list[bytes] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.watch)
        for client in (self.consumer, self.producer):
            client.start()
            self._stack.callback(client.stop)
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def stop(self) -> None:
        """When all that was sent has been acknowledged."""
        self._stack.close()

    def wait_for_more(self, count: int = 100) -> None:
        """Written and read.

        Who asks a leader that is cut off who leads is told that it does, and may stay with it for
        as long as that lasts.
        """
        wanted = len(self.producer.acknowledged) + count
        wait_until(lambda: len(self.producer.acknowledged) >= wanted, or_else=self._troubles)
        wanted = self.consumer.count + count
        wait_until(lambda: self.consumer.count >= wanted, or_else=self._troubles)

    def check(self) -> None:
        """When it has stopped: what its clients were told, and what another is told by now."""
        check_clients([self.producer], [self.consumer], beside=self.beside)
        self.watch.check()

    def _troubles(self) -> object:
        return self.producer.failures[:3], self.consumer.failures[:3]


def check(cluster: Cluster, load: Load) -> None:
    """All that was acknowledged is there, once, in order; and all replicas are the same.

    Nobody was told of two leaders in one epoch, or of an end before one told earlier.  The brokers
    have let go of all that the faults began; no other client may be left.
    """
    assert load.producer.failures == []
    load.check()
    cluster.wait_until_whole(load.topic)
    for number in range(load.partitions):
        wait_until(lambda at=number: cluster.are_alike(TopicPartition(load.topic, at)))
    cluster.leaks.check()
