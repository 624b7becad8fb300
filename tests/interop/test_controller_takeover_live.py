"""A tree that Apache Kafka left is taken over by our controller, and the other way round.

Each time a topic is half deleted and a partition half moved, since a broker is down; and those that
were there have stopped in order, or were killed.
"""

import asyncio
import re
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from odradek.protocol.api_keys import ApiKey
from tests.interop.controller_takeover_scene import CLUSTER_ID, LEFT, Branch, leave_in_order
from tests.interop.controller_tree_cluster import Cluster
from tests.interop.controller_tree_scenarios import LEFT_BEHIND, SETTINGS
from tests.support.apache_kafka import zookeeper_broker
from tests.support.java_program import run_java
from tests.support.left_trees import facts, finished, moving, shown_tree, to_delete, topic_ids
from tests.support.loops import finish
from tests.support.raw_answer import answer_to
from tests.support.server_process import ServerProcess
from tests.support.taken_over_cluster import taken_over

#: Little is compared after single steps, unlike in recordings.
SETTLED_S = 0.3
LOOK_EVERY_S = 0.2
PATIENCE_S = 45
BROKER_RESOURCE = 4
ALL_IN_SYNC = "all"
DESCRIBED_TOPIC = re.compile(r"Topic: (\S+)\tTopicId: (\S+)\t.*\tConfigs: (\S*)")
DESCRIBED_PARTITION = re.compile(
    r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)"
)


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_what_kafka_left_is_taken_over_by_us(ending, zookeeper, tmp_path):
    name = f"left-{ending}"
    with Cluster(tmp_path, name=name, zookeeper=zookeeper, settings=SETTINGS) as kafka:
        for step in LEFT_BEHIND[ending]:
            kafka.done(replace(step, settled_s=SETTLED_S))
        assert (to_delete(kafka.tree), moving(kafka.tree)) == ({"going"}, [("moving", 0)])
    finish(taken_over_from(f"{zookeeper.address}/{name}"))


async def taken_over_from(address):
    await taken_over(await Branch(address).open(), first=[1, 2])


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_what_we_left_is_taken_over_by_kafka(ending, zookeeper, kafka_39_jars, tmp_path):
    address = f"{zookeeper.address}/ours-{ending}"
    leave = {"stopped": left_in_order, "killed": left_by_a_kill}[ending]
    before = leave(address, tmp_path)
    assert (to_delete(before), moving(before)) == ({"going"}, [("moving", 0)])
    brokers = [
        zookeeper_broker(tmp_path, zookeeper=address, broker_id=each, properties=SETTINGS)
        for each in (1, 2, 3)
    ]
    with ExitStack() as running:
        for broker in brokers[:2]:
            start(broker, running)
        check_view_without_broker_3(before, found_tree(address))
        start(brokers[2], running)
        after = finish(tree_when(address, finished(before)))
        assert topic_ids(after) == topic_ids(before)
        check_view_of_clients(brokers[1], kafka_39_jars, after)


def start(broker, running):
    """Killed at the end: what it would do to stop in order takes long."""
    broker.start()
    running.callback(broker.kill)


def left_in_order(address, directory):
    finish(leave_in_order(address))
    return found_tree(address)


def left_by_a_kill(address, directory):
    log = directory / "ours.log"
    command = [sys.executable, "-m", "tests.interop.controller_takeover_scene", address]
    process = ServerProcess("ours", command=command, log=log)
    process.wait_until(lambda: LEFT in log.read_text().split(), timeout_s=PATIENCE_S)
    process.kill()
    return found_tree(address)


def check_view_without_broker_3(before, now):
    """Kafka is in charge, and finds unfinished what waits for broker 3."""
    assert facts(now).controller_epoch == facts(before).controller_epoch + 1
    assert (to_delete(now), moving(now)) == ({"going"}, [("moving", 0)])
    assert topic_ids(now) == topic_ids(before)
    assert facts(now).configs == facts(before).configs


def check_view_of_clients(broker, jars, tree):
    bootstrap = ("--bootstrap-server", broker.bootstrap)
    lines = run_java(jars, "org.apache.kafka.tools.TopicCommand", *bootstrap, "--describe")
    topics = {each[1]: each for each in filter(None, map(DESCRIBED_TOPIC.match, lines))}
    assert {name: each[2] for name, each in topics.items()} == topic_ids(tree)
    assert {*topics["steady"][3].split(",")} >= {"retention.ms=3600000", "max.message.bytes=2000"}
    described = {}
    for each in filter(None, map(DESCRIBED_PARTITION.match, lines)):
        replicas, isr = ([int(one) for one in each[at].split(",")] for at in (4, 5))
        assert (int(each[3]) in isr, sorted(isr)) == (True, sorted(replicas)), each[0]
        described[each[1], int(each[2])] = replicas
    assert described == facts(tree).replicas
    assert answer_to(broker.port, ApiKey.DESCRIBE_CLUSTER, 0, {})["clusterId"] == CLUSTER_ID
    assert configured(broker, "log.cleaner.threads") == "2"
    assert quotas(broker) == {
        (("client-id", None), ("user", "alice")): {"producer_byte_rate": 1024.0}
    }
    check_leaders(broker, described)


def configured(broker, key):
    asked = {
        "resourceType": BROKER_RESOURCE,
        "resourceName": str(broker.node_id),
        "configurationKeys": [key],
    }
    answer = answer_to(broker.port, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [asked]})
    return answer["results"][0]["configs"][0]["value"]


def quotas(broker):
    answer = answer_to(
        broker.port, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}
    )
    return {
        tuple(sorted((part["entityType"], part["entityName"]) for part in entry["entity"])): {
            each["key"]: each["value"] for each in entry["values"]
        }
        for entry in answer["entries"]
    }


def check_leaders(broker, partitions):
    """A record reaches all replicas of each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": ALL_IN_SYNC})
    failures = []
    for topic, number in partitions:
        producer.produce(
            topic, b"news", partition=number, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None] * len(partitions)


def found_tree(address):
    return finish(read_tree(address))


async def read_tree(address):
    store = await Branch(address).open()
    return await shown_tree(store, *[f"/{name}" for name in await store.get_children("/")])


async def tree_when(address, expected):
    store = await Branch(address).open()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        tree = await shown_tree(store, *[f"/{name}" for name in await store.get_children("/")])
        if facts(tree) == expected or time.monotonic() > deadline:
            assert facts(tree) == expected
            return tree
        await asyncio.sleep(LOOK_EVERY_S)
