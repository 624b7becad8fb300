"""``odradek configs`` against a broker."""

import itertools
import logging

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

DESCRIBE_ATTEMPTS_MAX = 50

numbers = itertools.count()


@pytest.fixture
def name(command):
    name = f"configured-{next(numbers)}"
    command("topics", "create", name, "--config", "cleanup.policy=compact")
    return name


def test_describe_shows_the_settings_of_the_topic_with_their_source(command, name):
    assert command("configs", "describe", "topic", name, "--json").objects == [
        {
            "name": "cleanup.policy",
            "value": "compact",
            "source": "topic",
            "read_only": False,
            "sensitive": False,
        }
    ]


def test_describe_all_shows_every_setting(command, name):
    rows = command("configs", "describe", "topic", name, "--all").rows
    sources = {row[0]: row[2] for row in rows}
    assert sources["cleanup.policy"] == "topic"
    assert sources["retention.ms"] == "default"


def test_settings_are_set_and_unset(command, name):
    changed = command(
        *("configs", "alter", "topic", name),
        *("--set", "retention.ms=5000", "--unset", "cleanup.policy"),
    )
    assert changed.lines == [f"topic {name} altered"]
    described = command("configs", "describe", "topic", name).rows
    assert [row[:2] for row in described] == [["retention.ms", "5000"]]


def test_append_and_subtract_change_a_list_setting(command, name):
    command("configs", "alter", "topic", name, "--append", "cleanup.policy=delete")
    assert _value(command, name) == "compact,delete"
    command("configs", "alter", "topic", name, "--subtract", "cleanup.policy=compact")
    assert _value(command, name) == "delete"


def _value(command, name):
    return command("configs", "describe", "topic", name).rows[0][1]


def test_broker_settings_are_described_and_altered_dynamically(command):
    broker_id = command("topics", "describe", "--json", *_create_topic(command)).objects[0][
        "leader"
    ]
    command("configs", "alter", "broker", broker_id, "--set", "log.cleaner.threads=2")
    for _ in range(DESCRIBE_ATTEMPTS_MAX):  # with ZooKeeper, the broker is notified a little later
        rows = command("configs", "describe", "broker", broker_id).rows
        values = {row[0]: row[1:3] for row in rows}
        if "log.cleaner.threads" in values:
            break
    assert values["log.cleaner.threads"] == ["2", "broker"]
    assert values["log.dirs"][1] == "static broker"


def test_group_settings_are_described_and_altered(command):
    group = ("group", "readers of/all")
    command("configs", "alter", *group, "--set", "consumer.session.timeout.ms=50000")
    (row,) = command("configs", "describe", *group).rows
    assert row[:3] == ["consumer.session.timeout.ms", "50000", "group"]
    command("configs", "alter", *group, "--unset", "consumer.session.timeout.ms")
    assert not command("configs", "describe", *group).rows


def _create_topic(command):
    command("topics", "create", "any", "--if-not-exists")
    return ["any"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["alter", "topic", "nix", "--set", "retention.ms=1"], "UNKNOWN_TOPIC"),
        (["describe", "topic", "nix"], "UNKNOWN_TOPIC"),
        (["alter", "topic", "nix"], "no change given"),
        (["describe", "topic", ""], "'' is not a topic name"),
        (
            ["alter", "broker", "x", "--set", "a=1"],
            "'x' is not a topic name, a group id or a broker id",
        ),
        (["describe", "broker", "77"], "odradek: "),
    ],
)
def test_invalid_command_is_reported_in_one_line(command, arguments, complaint):
    assert complaint in command("configs", *arguments, "--timeout", 2).complaint


@pytest.mark.parametrize("name", ["", "default"])
@pytest.mark.parametrize("verb", [["describe"], ["alter", "--set", "log.cleaner.threads=2"]])
def test_cluster_wide_broker_default_is_rejected_with_a_remedy(command, verb, name):
    complaint = command("configs", *verb, "broker", name).complaint
    assert "librdkafka cannot address the cluster-wide default of brokers" in complaint
    assert "kafka-configs --entity-type brokers --entity-default" in complaint


def test_librdkafka_still_rejects_the_cluster_wide_broker_default():
    resource = ConfigResource(ResourceType.BROKER, "")
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:9"}, logger=logging.getLogger("unheard"))
    with pytest.raises(ValueError, match="Invalid ConfigResource"):
        admin.describe_configs([resource])


def test_invalid_value_is_rejected(command, name):
    result = command("configs", "alter", "topic", name, "--set", "retention.ms=soon")
    assert "INVALID_CONFIG" in result.complaint
