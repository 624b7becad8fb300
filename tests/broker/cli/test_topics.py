"""``odradek topics`` against a broker."""

import itertools
import sys

import pytest

numbers = itertools.count()


@pytest.fixture
def name():
    return f"topic-{next(numbers)}"


def test_a_topic_is_created_shown_and_deleted(command, name):
    assert command("topics", "create", name, "--partitions", 3).lines == [f"{name} created"]
    assert [name, "3", "1", "no"] in command("topics", "list").rows
    assert command("topics", "delete", name).lines == [f"{name} deleted"]
    assert name not in [row[0] for row in command("topics", "list").rows]


def test_a_topic_has_the_brokers_number_of_partitions_unless_it_says(command, name):
    command("topics", "create", name)
    assert [name, "1", "1", "no"] in command("topics", "list").rows


def test_several_topics_are_created_at_once_and_each_fails_alone(command, name):
    command("topics", "create", name)
    ran = command("topics", "create", name, f"{name}-b")
    assert ran.status == 1
    assert ran.out == f"{name}-b created\n"
    assert ran.err.startswith(f"odradek: {name}: TOPIC_ALREADY_EXISTS: ")


def test_what_is_there_already_can_be_forgiven(command, name):
    command("topics", "create", name)
    assert command("topics", "create", name, "--if-not-exists").lines == []


def test_what_is_not_there_can_be_forgiven(command, name):
    assert "UNKNOWN_TOPIC" in command("topics", "delete", name).complaint
    assert command("topics", "delete", name, "--if-exists").lines == []


def test_partitions_are_described_with_leader_replicas_and_offsets(command, name):
    command("topics", "create", name, "--partitions", 2)
    command("produce", name, "a", "b", "--partition", 1)
    described = command("topics", "describe", name, "--json").objects
    broker_id = described[0]["leader"]
    there = {"topic": name, "leader": broker_id, "replicas": [broker_id], "isr": [broker_id]}
    assert described == [
        {**there, "partition": 0, "start": 0, "end": 0},
        {**there, "partition": 1, "start": 0, "end": 2},
    ]


def test_rows_have_tabs_between_their_fields_in_a_pipe(command, name):
    command("topics", "create", name)
    described = command("topics", "describe", name)
    assert described.lines[0].split("\t") == [
        *("topic", "partition", "leader", "replicas", "isr", "start", "end")
    ]
    assert described.rows[0][:2] == [name, "0"]


def test_rows_are_a_table_on_a_terminal(command, name, monkeypatch):
    command("topics", "create", name)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    lines = command("topics", "list").lines
    assert lines[0].strip() == "Topics"
    assert any(line.split() == [name, "1", "1", "no"] for line in lines)


def test_an_unknown_topic_cannot_be_described(command, name):
    complaint = command("topics", "describe", name).complaint
    assert complaint.startswith(f"odradek: {name}: UNKNOWN_TOPIC")


def test_partitions_and_settings_are_altered(command, name):
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


def test_altering_nothing_is_an_error(command, name):
    assert "nothing to change" in command("topics", "alter", name).complaint


def test_a_setting_must_have_a_value(command, name):
    ran = command("topics", "create", name, "--config", "retention.ms")
    assert ran.status == 2
    assert "'retention.ms' is not NAME=VALUE" in ran.err


def test_a_bad_setting_is_told_in_one_line(command, name):
    complaint = command("topics", "create", name, "--config", "retention.ms=soon").complaint
    assert complaint.startswith(f"odradek: {name}: INVALID_CONFIG: ")
    assert "retention.ms" in complaint


def test_a_topic_that_is_named_twice_is_meant_once(command, name):
    assert command("topics", "create", name, name).lines == [f"{name} created"]
    assert len(command("topics", "describe", name, name).rows) == 1
    assert command("topics", "delete", name, name).lines == [f"{name} deleted"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", ""], "name cannot be empty"),
        (["create", "t", "--partitions", "-7"], "num_partitions"),
        (["create", "t", "--replication-factor", "100000"], "replication_factor"),
        (["describe", ""], "Empty topic name"),
        (["alter", "t", "--partitions", "0"], "expected range"),
        (["alter", "t", "--partitions", "99999999999"], "greater than maximum"),
        (["alter", "t", "--unset", ""], "mustn't be empty"),
    ],
)
def test_what_the_library_does_not_take_is_told_in_one_line(command, arguments, complaint):
    assert complaint in command("topics", *arguments).complaint


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "1e9"])
def test_a_timeout_is_a_time(command, seconds):
    assert "is not a number of seconds" in command("topics", "list", "--timeout", seconds).err
