"""What operators say of replicas: where they stand, how fast they are copied, who may lead."""

import contextlib
import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, ResourceType

from odradek.broker.settings.replication import RACK_AWARE_SELECTOR
from odradek.protocol.types import TopicPartition as Place
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until

RACKS = ("a", "b", "b")
RATE = 1 << 20
COPIED_BYTES = 4 << 20


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    overrides = (f"replica.selector.class={RACK_AWARE_SELECTOR}", "replica.fetch.max.bytes=131072")
    directory = tmp_path_factory.mktemp("racks")
    with Cluster(directory, zookeeper, *overrides, racks=RACKS).running() as cluster:
        yield cluster


def create(cluster, topic, *, assignment=None, replicas=3, partitions=1, **configs):
    if assignment is None:
        new = NewTopic(topic, partitions, replicas, config=configs)
    else:
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=configs)
    cluster.admin.create(new)
    count = replicas if assignment is None else len(assignment[0])

    def is_whole():
        found = cluster.partitions(topic).values()
        return bool(found) and all(len(each.in_sync) == count for each in found)

    wait_until(is_whole)


def configure(cluster, kind, name, **configs):
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    cluster.admin.configure(kind, name, configs)


def produce(cluster, topic, values, **options):
    told = []
    producer = Producer({"bootstrap.servers": cluster.addresses, "linger.ms": 5, **options})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda failure, _: told.append(failure)
        )
        producer.poll(0)
    assert not producer.flush(60)
    assert told == [None] * len(values)


class Reader:
    """A consumer in a rack, of partition 0 of a topic; from whom it fetches."""

    def __init__(self, cluster, topic, rack):
        self._topic = topic
        self.fetches_from = None
        self.values = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.addresses,
                "group.id": "readers",
                "enable.auto.commit": False,
                "client.rack": rack,
                "statistics.interval.ms": 50,
                "stats_cb": self._told,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _told(self, told):
        topic = json.loads(told)["topics"].get(self._topic, {"partitions": {}})
        self.fetches_from = topic["partitions"].get("0", {}).get("broker")

    def has(self, count, *, fetched_from):
        message = self._consumer.poll(0.05)
        if message is not None:
            assert message.error() is None
            self.values.append(message.value())
        return len(self.values) == count and self.fetches_from in fetched_from


def test_a_consumer_reads_from_the_follower_in_its_rack(cluster):
    create(cluster, "closest", assignment=[[0, 1, 2]])
    values = [b"%d" % each for each in range(100)]
    produce(cluster, "closest", values[:50])
    readers = [Reader(cluster, "closest", rack) for rack in ("b", "a", "elsewhere")]
    with contextlib.ExitStack() as endings:
        for each in readers:
            endings.callback(each._consumer.close)
        nearby, beside_the_leader, far_away = readers
        wait_until(lambda: nearby.has(50, fetched_from=(1, 2)))
        produce(cluster, "closest", values[50:])
        wait_until(lambda: nearby.has(100, fetched_from=(1, 2)))
        wait_until(lambda: beside_the_leader.has(100, fetched_from=(0,)))
        wait_until(lambda: far_away.has(100, fetched_from=(0,)))
    assert [each.values for each in readers] == [values] * 3


def test_replicas_of_a_new_topic_are_spread_over_racks(cluster):
    create(cluster, "spread", replicas=2, partitions=6)
    replicas = [each.in_sync for each in cluster.partitions("spread").values()]
    assert all(len({RACKS[each] for each in in_sync}) == 2 for in_sync in replicas)


@pytest.mark.parametrize(
    "configs",
    [
        {"leader_replication_throttled_replicas": "0:0"},
        {"follower_replication_throttled_replicas": "0:2"},
    ],
    ids=["leader", "follower"],
)
def test_r8_a_replica_is_copied_at_the_rate_that_is_set(cluster, configs, request):
    topic = f"throttled-by-{request.node.callspec.id}"
    create(cluster, topic, assignment=[[0, 1, 2]])
    side = request.node.callspec.id
    for broker in ("0", "2"):
        rate = {f"{side}_replication_throttled_rate": str(RATE)}
        configure(cluster, ResourceType.BROKER, broker, **rate)
    configure(cluster, ResourceType.TOPIC, topic, **configs)
    follower = cluster.brokers[2]
    follower.stop()
    produce(cluster, topic, [bytes(10_000)] * (COPIED_BYTES // 10_000))
    follower.launch()
    rate = copying_rate(follower.data_dir / f"{topic}-0", COPIED_BYTES)
    follower.wait_until_ready()
    assert 0.9 * RATE <= rate <= 2 * RATE
    wait_until(lambda: len(cluster.partitions(topic)[0][1]) == 3)
    first, *others = cluster.logs(Place(topic, 0))
    assert others == [first, first]


def copying_rate(directory: Path, size_bytes):
    """How fast the segments of a log grow, from when they first do until they have that size."""

    def size():
        return sum(each.stat().st_size for each in directory.glob("*.log"))

    wait_until(size)
    began_s = time.monotonic()
    wait_until(lambda: size() >= size_bytes)
    return size_bytes / (time.monotonic() - began_s)


def test_an_unclean_election_is_the_topics_choice_and_the_loss_is_logged(cluster):
    topic, (_, leader, other) = "risky", cluster.brokers
    create(cluster, topic, assignment=[[1, 2]])
    produce(cluster, topic, [b"kept"], acks="all")
    other.stop()
    wait_until(lambda: cluster.partitions(topic)[0][:2] == (1, {1}))
    produce(cluster, topic, [b"lost"], acks="all")
    leader.kill()
    wait_until(lambda: cluster.partitions(topic)[0][0] == -1)
    other.start()
    assert cluster.partitions(topic)[0][0] == -1
    assert not lost_in(cluster)
    configure(cluster, ResourceType.TOPIC, topic, unclean_leader_election_enable="true")
    wait_until(lambda: cluster.partitions(topic)[0][:2] == (2, {2}))
    assert lost_in(cluster) == ["risky-0: broker 2 was not in the ISR; records may be lost"]
    produce(cluster, topic, [b"after"], acks="all")
    leader.start()
    wait_until(lambda: cluster.partitions(topic)[0][:2] == (2, {1, 2}))
    first, second = cluster.logs(Place(topic, 0))[1:]
    assert first == second
    assert [b in first for b in (b"kept", b"lost", b"after")] == [True, False, True]


def lost_in(cluster):
    told = [line for each in cluster.brokers for line in each.log_text.splitlines()]
    return [line.partition("for partition ")[2] for line in told if "records may be lost" in line]
