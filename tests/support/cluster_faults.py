"""Faults that tests of a cluster make, and what they ask one broker directly, whoever leads.

Owner: the thread of the test.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until
from tests.support.wire_client import call

ALL_IN_SYNC, LEADER_ONLY = -1, 1
TIMEOUT_MS = 500


def write(broker: BrokerProcess, topic: str, value: bytes, *, acks: int) -> ErrorCode:
    """What this broker answers."""
    now_ms = time.time_ns() // 10**6  # else it is too old at once
    sent = {"index": 0, "records": bytes(batch_of(Record(0, now_ms, None, value)))}
    answer = call(
        broker.address,
        ApiKey.PRODUCE,
        7,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[{"name": topic, "partition_data": [sent]}],
    )
    ((line,),) = [each.partition_responses for each in answer.responses]
    return ErrorCode.for_code(line.error_code)


def wait_until_written(broker: BrokerProcess, topic: str, value: bytes) -> None:
    """To all that are in sync, perhaps more than once."""
    wait_until(lambda: write(broker, topic, value, acks=ALL_IN_SYNC) is ErrorCode.NONE)


def wait_for_another_leader(
    cluster: Cluster, topic: str, *before: BrokerProcess, by: BrokerProcess
) -> BrokerProcess:
    """Than these, as ``by`` knows it."""
    former = {cluster.brokers.index(each) for each in (*before,)}

    def is_led() -> bool:
        return cluster.partitions(topic, by=by)[0].leader not in {*former, -1}

    wait_until(is_led, or_else=lambda: cluster.partitions(topic, by=by))
    return cluster.leader(topic, by=by)


@contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    """It does nothing, and nobody is told."""
    broker.send(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.send(signal.SIGCONT)


class Target(StrEnum):
    """Whom a fault is for, at the time when it is made."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"


class Kind(StrEnum):
    KILL = "SIGKILL"
    STOP = "SIGTERM"
    PAUSE = "SIGSTOP"
    ISOLATE = "cut off from peers and ZooKeeper"
    CUT_FROM_PEERS = "cut off from peers"
    CUT_FROM_ZOOKEEPER = "cut off from ZooKeeper"
    DELAY = "everything is late"


CUTS = (Kind.ISOLATE, Kind.CUT_FROM_PEERS, Kind.CUT_FROM_ZOOKEEPER)
TARGETS, FAULTS = tuple(Target), tuple(Kind)
DELAY_S = 0.1
#: Longer than a follower may lag, and than a session lasts.
CUT_S = 4


class Fault(NamedTuple):
    """One at a time, or they would heal each other."""

    kind: Kind
    target: Target

    def wait_while(self, goes_on: Callable[[], None]) -> None:
        """Until clients have gone on with it, if they can.

        Who is registered and cut off from its peers keeps what it leads, and acknowledges nothing;
        who is cut off from ZooKeeper tells clients that it leads still.
        """
        if self.kind in CUTS:
            time.sleep(CUT_S)
        else:
            goes_on()

    def make(self, cluster: Cluster, topic: str) -> Callable[[], object]:
        """What ends it."""
        broker = self._broker(cluster, topic)
        number = cluster.brokers.index(broker)
        network = cluster.network
        assert network is not None
        match self.kind:
            case Kind.KILL:
                broker.kill()
                return broker.start
            case Kind.STOP:
                broker.stop()
                return broker.start
            case Kind.PAUSE:
                broker.send(signal.SIGSTOP)
                return lambda: broker.send(signal.SIGCONT)
            case Kind.ISOLATE:
                network.isolate(number)
            case Kind.CUT_FROM_PEERS:
                network.cut_from_peers(number)
            case Kind.CUT_FROM_ZOOKEEPER:
                network.cut_from_zookeeper(number)
            case Kind.DELAY:
                network.delay(DELAY_S)
                return network.hasten
        return network.mend

    def _broker(self, cluster: Cluster, topic: str) -> BrokerProcess:
        if self.target is Target.CONTROLLER:
            wait_until(lambda: cluster.controller() >= 0)
            return cluster.brokers[cluster.controller()]
        wait_until(lambda: cluster.partitions(topic)[0].leader >= 0)
        leader = cluster.leader(topic)
        return leader if self.target is Target.LEADER else cluster.others(leader)[0]
