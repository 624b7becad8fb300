"""Settings of single groups: answered as by Kafka 4.1, and harmless to 3.9, which has none."""

import time

from kazoo.client import KazooClient

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.apache_kafka import zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import call

TOPIC, GROUP = 2, 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

#: Each is followed by a description of the group.
CHANGES = {
    "set": ("g", [(SESSION, SET, "50000")]),
    "set as well": ("g", [(HEARTBEAT, SET, "7000")]),
    "too short": ("g", [(SESSION, SET, "100")]),
    "too long": ("g", [(SESSION, SET, "60001")]),
    "too often": ("g", [(HEARTBEAT, SET, "4999")]),
    "no number": ("g", [(HEARTBEAT, SET, "soon")]),
    "not theirs": ("g", [("retention.ms", SET, "1")]),
    "no list": ("g", [(SESSION, APPEND, "1")]),
    "no value": ("g", [(SESSION, SET, None)]),
    "twice": ("g", [(SESSION, SET, "50000"), (SESSION, SET, "50001")]),
    "back": ("g", [(SESSION, DELETE, None)]),
    "unknown gone": ("g", [("no.such", DELETE, None)]),
    "all back": ("g", [(HEARTBEAT, DELETE, None)]),
    "nobody": ("", [(SESSION, SET, "50000")]),
    "any name": ("a/b c", [(SESSION, SET, "50000")]),
}


def eventually(is_so):
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def altered(address, name, changes, kind=GROUP):
    configs = [
        {"name": key, "config_operation": operation, "value": text}
        for key, operation, text in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = call(
        address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    return ErrorCode.for_code(answer.responses[0].error_code).name


def described(address, name):
    """What there is of the settings that both know."""
    resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": None}
    answer = call(address, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
    (result,) = answer.results
    shown = {
        each.name: (each.value, each.config_source, each.read_only, each.config_type)
        for each in result.configs
        if each.name in (SESSION, HEARTBEAT)
    }
    synonyms = {
        each.name: [(one.name, one.value, one.source) for one in each.synonyms]
        for each in result.configs
        if each.name in shown
    }
    return ErrorCode.for_code(result.error_code).name, shown, synonyms


def test_groups_are_configured_as_by_kafka(kafka_41, tmp_path):
    with BrokerProcess(tmp_path / "ours").start() as ours:
        for title, (name, changes) in CHANGES.items():
            told = altered(ours.address, name, changes)
            assert told == altered(kafka_41.bootstrap, name, changes), title
            eventually(
                lambda name=name: (
                    described(ours.address, name) == described(kafka_41.bootstrap, name)
                )
            )


def test_kafka_without_such_settings_passes_over_them(zookeeper, tmp_path):
    address = f"{zookeeper.address}/{tmp_path.name}"
    client = KazooClient(address)
    with zookeeper_broker(tmp_path, zookeeper=address) as kafka:
        call(
            kafka.bootstrap,
            ApiKey.CREATE_TOPICS,
            5,
            topics=[
                {
                    "name": "t",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout_ms=10_000,
        )
        client.start()
        try:
            config = b'{"version":1,"config":{"consumer.session.timeout.ms":"50000"}}'
            client.create("/config/groups/g", config, makepath=True)
            notice = b'{"version":2,"entity_path":"groups/g"}'
            client.create("/config/changes/config_change_", notice, sequence=True)
        finally:
            client.stop()
            client.close()
        check_goes_on(kafka, "5000000")
        assert "error processing change notification" in kafka.log.read_text()
        kafka.stop()
        kafka.start()
        check_goes_on(kafka, "6000000")


def check_goes_on(kafka, retention_ms):
    """It acts on what comes after, as soon as it knows the topic."""
    change = [("retention.ms", SET, retention_ms)]
    eventually(lambda: altered(kafka.bootstrap, "t", change, TOPIC) == "NONE")
    taken = f"topics/t with config: HashMap(retention.ms -> {retention_ms})"
    eventually(lambda: taken in kafka.log.read_text())
