"""A broker of ours goes on where Apache Kafka's left off, on its ZooKeeper and its log directory.

And the other way round, and back again: each finds all records, topics and settings, and appends.
"""

from dataclasses import dataclass

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.interop.both_kinds import BROKER_ID, BothKinds
from tests.support.client_driver import BEGINNING, CODECS, Options, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.wire_client import call, error_codes

PARTITIONS = 3
ROUND = 30  # records of each broker in its turn, to each partition
DELETED = 7
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0
EARLIEST = -2
TURNS = ("kafka", "odradek", "kafka", "odradek")


@dataclass(frozen=True)
class Facts:
    """What no change of brokers changes."""

    cluster_id: str
    topic_id: object
    configs: dict[str, str]


class Turns:
    """All that was sent to brokers, of which one runs at a time."""

    def __init__(self, directory, address):
        self.brokers = BothKinds(directory, address)
        self.address = self.brokers.address
        self.sent = {number: [] for number in range(PARTITIONS)}
        self.idempotent_producers = 0

    def ask(self, key, version, **values):
        answer = call(self.address, key, version, **values)
        assert error_codes(answer) == {0}, answer
        return answer

    def prepare(self):
        configs = [{"name": "segment.bytes", "value": "4096"}]
        topic = {"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}
        self.ask(ApiKey.CREATE_TOPICS, 7, topics=[{**topic, "configs": configs}], timeout_ms=20_000)
        for kind, name, key, text in (
            (TOPIC_RESOURCE, "t", "max.message.bytes", "2000000"),
            (BROKER_RESOURCE, str(BROKER_ID), "log.cleaner.threads", "2"),
            (BROKER_RESOURCE, "", "log.retention.ms", "864000000"),
        ):
            config = {"name": key, "config_operation": SET, "value": text}
            resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
            self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])

    def send(self, turn):
        """In every codec, some by an idempotent producer."""
        for number, codec in enumerate(CODECS):
            options = Options(codec=codec, is_idempotent=number % 2 == 0)
            self.idempotent_producers += options.is_idempotent
            with ConfluentDriver().producer(self.address, options) as producer:
                for partition in range(PARTITIONS):
                    records = [
                        Sent(
                            b"%d %d %d" % (turn, number, each) * 10,
                            key=b"key-%d" % each if each % 2 else None,
                            headers=(("turn", b"%d" % turn),),
                            partition=partition,
                        )
                        for each in range(ROUND // len(CODECS))
                    ]
                    begin = len(self.sent[partition])
                    assert producer.send("t", records) == [
                        begin + each for each in range(len(records))
                    ]
                    self.sent[partition] += records

    def check_producers(self):
        """No two of them got one id."""
        topics = [{"name": "t", "partition_indexes": [0]}]
        answer = self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
        known = {each.producer_id for each in answer.topics[0].partitions[0].active_producers}
        assert len(known) == self.idempotent_producers

    def delete_records(self):
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": DELETED}]}]
        self.ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=20_000)

    def check_records(self):
        count = sum(map(len, self.sent.values())) - DELETED
        starts = dict.fromkeys(self.sent, BEGINNING) | {0: DELETED}
        with ConfluentDriver().consumer(self.address) as consumer:
            received = consumer.read("t", starts, count=count)
        for partition, sent in self.sent.items():
            first = starts[partition]
            found = [each for each in received if each.partition == partition]
            assert [each.offset for each in found] == list(range(first, len(sent)))
            assert [(each.key, each.value, each.headers) for each in found] == [
                (each.key, each.value, each.headers) for each in sent[first:]
            ]

    def facts(self):
        metadata = self.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])
        asked = [
            (TOPIC_RESOURCE, "t", "max.message.bytes"),
            (TOPIC_RESOURCE, "t", "segment.bytes"),
            (TOPIC_RESOURCE, "t", "retention.ms"),
            (BROKER_RESOURCE, str(BROKER_ID), "log.cleaner.threads"),
        ]
        resources = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
            for kind, name, key in asked
        ]
        described = self.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
        return Facts(
            cluster_id=metadata.cluster_id,
            topic_id=metadata.topics[0].topic_id,
            configs={each.configs[0].name: each.configs[0].value for each in described},
        )

    def first_offset(self):
        topics = [
            {"name": "t", "partitions": [{"partition_index": 0, "timestamp": EARLIEST}]},
        ]
        answer = self.ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
        return answer.topics[0].partitions[0].offset


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_brokers_of_both_kinds_take_turns_on_one_directory_and_tree(
    zookeeper, kafka_39_jars, tmp_path, ending
):
    turns = Turns(tmp_path, f"{zookeeper.address}/handover-{ending}")
    facts = None
    for turn, name in turns.brokers.in_turns(TURNS, ending=ending):
        if turn == 0:
            turns.prepare()
            turns.send(turn)
            turns.delete_records()
            facts = turns.facts()
        turns.check_records()
        assert turns.facts() == facts, name
        # A kill may come before it is written down how far records were deleted.
        assert ending == "kill" or turns.first_offset() == DELETED
        turns.send(turn)
        turns.check_records()
        turns.check_producers()
    assert facts.configs["retention.ms"] == "864000000"
    turns.brokers.check_logs()
