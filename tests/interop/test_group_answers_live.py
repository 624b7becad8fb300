"""Apache Kafka and a broker of ours are asked the same about classic groups, and answer alike."""

from tests.interop.group_conversation import TOPIC, conversation
from tests.support.apache_kafka import zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import find_coordinator
from tests.support.partition_client import create_topic


def told_by(address):
    create_topic(address, TOPIC, partitions=2)
    create_topic(address, "other", partitions=1)
    find_coordinator(address)
    return conversation(address)


def test_both_answer_the_same_to_whoever_asks_about_groups(zookeeper, kafka_39_jars, tmp_path):
    address = f"{zookeeper.address}/group-answers"
    with zookeeper_broker(tmp_path, zookeeper=address) as kafka:
        theirs = told_by(f"127.0.0.1:{kafka.port}")
    settings = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4")
    with BrokerProcess(tmp_path / "ours", *settings).start() as broker:
        ours = told_by(broker.address)
    differences = [
        (step, own, other)
        for (step, own), (_, other) in zip(ours, theirs, strict=True)
        if own != other
    ]
    shown = "\n\n".join("\n  ".join(each) for each in differences)
    assert not differences, shown
