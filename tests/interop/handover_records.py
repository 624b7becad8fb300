"""What a handover must not do to records, topics and settings: see test_broker_handover_live.py."""

from dataclasses import dataclass

from odradek.protocol.api_keys import ApiKey
from tests.interop.handover import BROKER_ID
from tests.support.client_driver import BEGINNING, CODECS, Options, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.wire_client import call, error_codes

PARTITIONS = 3
ROUND = 30  # records of each broker in its turn, to each partition
DELETED = 7
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0
EARLIEST = -2


@dataclass(frozen=True)
class Facts:
    """What no change of brokers changes."""

    cluster_id: str
    topic_id: object
    configs: dict[str, str]


class HandedRecords:
    """All that was sent."""

    def __init__(self, address):
        self._address = address
        self._facts = None
        self._sent = {number: [] for number in range(PARTITIONS)}
        self._idempotent_producers = 0

    def prepare(self):
        configs = [{"name": "segment.bytes", "value": "4096"}]
        topic = {"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}
        self._ask(
            ApiKey.CREATE_TOPICS, 7, topics=[{**topic, "configs": configs}], timeout_ms=20_000
        )
        for kind, name, key, text in (
            (TOPIC_RESOURCE, "t", "max.message.bytes", "2000000"),
            (BROKER_RESOURCE, str(BROKER_ID), "log.cleaner.threads", "2"),
            (BROKER_RESOURCE, "", "log.retention.ms", "864000000"),
        ):
            config = {"name": key, "config_operation": SET, "value": text}
            resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
            self._ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        self._send(turn=0)
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": DELETED}]}]
        self._ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=20_000)
        self._facts = self._facts_now()
        assert self._facts.configs["retention.ms"] == "864000000"

    def play(self, turn, *, is_start_kept):
        """What the last broker left is there, and more is left for the next."""
        self._check_records()
        assert self._facts_now() == self._facts
        assert self._first_offset() == DELETED or not is_start_kept
        self._send(turn)
        self._check_records()
        self._check_producers()

    def _send(self, turn):
        """In every codec, some by an idempotent producer."""
        for number, codec in enumerate(CODECS):
            options = Options(codec=codec, is_idempotent=number % 2 == 0)
            self._idempotent_producers += options.is_idempotent
            with ConfluentDriver().producer(self._address, options) as producer:
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
                    begin = len(self._sent[partition])
                    assert producer.send("t", records) == [
                        begin + each for each in range(len(records))
                    ]
                    self._sent[partition] += records

    def _check_producers(self):
        """No two of them got one id."""
        topics = [{"name": "t", "partition_indexes": [0]}]
        answer = self._ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
        known = {each.producer_id for each in answer.topics[0].partitions[0].active_producers}
        assert len(known) == self._idempotent_producers

    def _check_records(self):
        count = sum(map(len, self._sent.values())) - DELETED
        starts = dict.fromkeys(self._sent, BEGINNING) | {0: DELETED}
        with ConfluentDriver().consumer(self._address) as consumer:
            received = consumer.read("t", starts, count=count)
        for partition, sent in self._sent.items():
            first = starts[partition]
            found = [each for each in received if each.partition == partition]
            assert [each.offset for each in found] == list(range(first, len(sent)))
            assert [(each.key, each.value, each.headers) for each in found] == [
                (each.key, each.value, each.headers) for each in sent[first:]
            ]

    def _facts_now(self):
        metadata = self._ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])
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
        described = self._ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
        return Facts(
            cluster_id=metadata.cluster_id,
            topic_id=metadata.topics[0].topic_id,
            configs={each.configs[0].name: each.configs[0].value for each in described},
        )

    def _first_offset(self):
        topics = [
            {"name": "t", "partitions": [{"partition_index": 0, "timestamp": EARLIEST}]},
        ]
        answer = self._ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
        return answer.topics[0].partitions[0].offset

    def _ask(self, key, version, **values):
        answer = call(self._address, key, version, **values)
        assert error_codes(answer) == {0}, answer
        return answer
