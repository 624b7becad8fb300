"""``odradek topics`` against a broker."""

import itertools
import sys

import pytest

numbers = itertools.count()


@pytest.fixture
def name():
    return f"topic-{next(numbers)}"


def test_topic_is_created_listed_and_deleted(command, name):
    assert command("topics", "create", name, "--partitions", 3).lines == [f"{name} created"]
    assert [name, "3", "1", "no"] in command("topics", "list").rows
    assert command("topics", "delete", name).lines == [f"{name} deleted"]
    assert name not in [row[0] for row in command("topics", "list").rows]


def test_topic_has_the_brokers_default_number_of_partitions(command, name):
    command("topics", "create", name)
    assert [name, "1", "1", "no"] in command("topics", "list").rows


def test_create_reports_each_topic_separately(command, name):
    command("topics", "create", name)
    result = command("topics", "create", name, f"{name}-b")
    assert result.status == 1
    assert result.out == f"{name}-b created\n"
    assert result.err.startswith(f"odradek: {name}: TOPIC_ALREADY_EXISTS: ")


def test_if_not_exists_ignores_an_existing_topic(command, name):
    command("topics", "create", name)
    assert command("topics", "create", name, "--if-not-exists").lines == []


def test_if_exists_ignores_an_unknown_topic(command, name):
    assert "UNKNOWN_TOPIC" in command("topics", "delete", name).complaint
    assert command("topics", "delete", name, "--if-exists").lines == []


def test_describe_shows_leader_replicas_and_offsets(command, name):
    command("topics", "create", name, "--partitions", 2)
    command("produce", name, "a", "b", "--partition", 1)
    described = command("topics", "describe", name, "--json").objects
    broker_id = described[0]["leader"]
    common = {"topic": name, "leader": broker_id, "replicas": [broker_id], "isr": [broker_id]}
    assert described == [
        {**common, "partition": 0, "start": 0, "end": 0},
        {**common, "partition": 1, "start": 0, "end": 2},
    ]


def test_pipe_gets_tab_separated_rows(command, name):
    command("topics", "create", name)
    described = command("topics", "describe", name)
    assert described.lines[0].split("\t") == [
        *("topic", "partition", "leader", "replicas", "isr", "start", "end")
    ]
    assert described.rows[0][:2] == [name, "0"]


def test_list_is_a_table_on_a_terminal(command, name, monkeypatch):
    command("topics", "create", name)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    lines = command("topics", "list").lines
    assert lines[0].strip() == "Topics"
    assert any(line.split() == [name, "1", "1", "no"] for line in lines)


def test_unknown_topic_cannot_be_described(command, name):
    complaint = command("topics", "describe", name).complaint
    assert complaint.startswith(f"odradek: {name}: UNKNOWN_TOPIC")


def test_alter_changes_partitions_and_settings(command, name):
    command("topics", "create", name, "--config", "retention.ms=1000")
    altered = command(
        *("topics", "alter", name, "--partitions", 4),
        *("--config", "segment.bytes=2000000", "--unset", "retention.ms"),
    )
    assert altered.lines == [f"topic {name} altered", f"{name} has 4 partitions"]
    assert [name, "4", "1", "no"] in command("topics", "list").rows
    assert [row[:3] for row in command("configs", "describe", "topic", name).rows] == [
        ["segment.bytes", "2000000", "topic"]
    ]


def test_alter_without_a_change_is_rejected(command, name):
    assert "no change given" in command("topics", "alter", name).complaint


def test_setting_must_have_a_value(command, name):
    result = command("topics", "create", name, "--config", "retention.ms")
    assert result.status == 2
    assert "'retention.ms' is not NAME=VALUE" in result.err


def test_invalid_setting_is_reported_in_one_line(command, name):
    complaint = command("topics", "create", name, "--config", "retention.ms=soon").complaint
    assert complaint.startswith(f"odradek: {name}: INVALID_CONFIG: ")
    assert "retention.ms" in complaint


def test_duplicate_topic_name_counts_once(command, name):
    assert command("topics", "create", name, name).lines == [f"{name} created"]
    assert len(command("topics", "describe", name, name).rows) == 1
    assert command("topics", "delete", name, name).lines == [f"{name} deleted"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", ""], "the empty string is not allowed"),
        (["create", "t", "--partitions", "-7"], "num_partitions"),
        (["create", "t", "--replication-factor", "100000"], "replication_factor"),
        (["describe", ""], "Empty topic name"),
        (["alter", "t", "--partitions", "0"], "expected range"),
        (["alter", "t", "--partitions", "99999999999"], "greater than maximum"),
        (["alter", "t", "--unset", ""], "mustn't be empty"),
    ],
)
def test_rejected_argument_is_reported_in_one_line(command, arguments, complaint):
    assert complaint in command("topics", *arguments).complaint


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "1e9"])
def test_timeout_must_be_a_number_of_seconds(command, seconds):
    assert "is not a number of seconds" in command("topics", "list", "--timeout", seconds).err
