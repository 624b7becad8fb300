"""``odradek groups`` against a broker with consumers: list, describe, delete, delete-offsets."""

import itertools
import sys

import pytest

from tests.support.broker_stores import new_store
from tests.support.group_members import wait_until
from tests.support.group_readers import Reader, broker, commit, topic

__all__ = ["broker", "new_store", "topic"]

numbers = itertools.count()


@pytest.fixture
def group():
    return f"group-{next(numbers)}"


def test_list_shows_protocol_and_state(command, broker, group, topic):
    commit(broker.address, f"{group}-left", {(topic, 0): 1})
    with (
        Reader(broker.address, f"{group}-a", topic),
        Reader(broker.address, f"{group}-b", topic, group_protocol="consumer"),
    ):
        listed = [row for row in command("groups", "list").rows if row[0].startswith(f"{group}-")]
    assert listed == [
        [f"{group}-a", "classic", "Stable"],
        [f"{group}-b", "consumer", "Stable"],
        [f"{group}-left", "classic", "Empty"],
    ]


def test_list_filters_by_state_and_protocol(command, broker, group, topic):
    commit(broker.address, f"{group}-left", {(topic, 0): 1})
    with Reader(broker.address, group, topic, group_protocol="consumer"):
        stable = command("groups", "list", "--state", "STABLE", "--state", "dead").rows
        classic = command("groups", "list", "--type", "classic").rows
        both = command("groups", "list", "--type", "classic", "--state", "stable").rows
    assert [group, "consumer", "Stable"] in stable
    assert {row[2] for row in stable} == {"Stable"}
    assert [f"{group}-left", "classic", "Empty"] in classic
    assert {row[1] for row in classic} == {"classic"}
    assert f"{group}-left" not in [row[0] for row in both]
    assert group not in [row[0] for row in both]


def test_lag_is_the_end_offset_minus_the_committed_offset(command, broker, group, topic):
    commit(broker.address, group, {(topic, 0): 4, (topic, 1): 10})
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        described = command("groups", "describe", group, "--json").objects
    member = {"member": described[0]["member"], "host": "/127.0.0.1", "client": "reader"}
    assert member["member"].startswith("reader-")
    assert described == [
        {"group": group, "topic": topic, "partition": partition, **offsets, **member}
        for partition, offsets in enumerate(
            [
                {"committed": 4, "end": 10, "lag": 6},
                {"committed": 10, "end": 10, "lag": 0},
                {"committed": None, "end": 0, "lag": None},
            ]
        )
    ]


def test_unknown_values_are_shown_as_a_dash(command, broker, group, topic):
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        described = command("groups", "describe", group)
    assert described.lines[0].split("\t") == [
        *("group", "topic", "partition", "committed", "end", "lag", "member", "host", "client")
    ]
    assert [row[3:6] for row in described.rows] == [["-", end, "-"] for end in ("10", "10", "0")]


def test_group_without_members_still_has_lag(command, broker, group, topic):
    commit(broker.address, group, {(topic, 1): 7})
    result = command("groups", "describe", group)
    assert (result.status, result.err) == (0, f"odradek: {group} has no members\n")
    assert result.out.splitlines()[1:] == [f"{group}\t{topic}\t1\t7\t10\t3\t-\t-\t-"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_describe_members_shows_their_assignment(command, broker, group, topic, protocol):
    options = {"auto_offset_reset": "latest", "group_protocol": protocol}
    with Reader(broker.address, group, topic, group_instance_id="i-1", **options):
        (member,) = command("groups", "describe", group, "--members", "--json").objects
    partitions = [f"{topic}:0", f"{topic}:1", f"{topic}:2"]
    assert member.pop("member")
    assert member == {
        "group": group,
        "instance": "i-1",
        "host": "/127.0.0.1",
        "client": "reader",
        "partitions": 3,
        "assignment": partitions,
        "target": partitions if protocol == "consumer" else None,
    }


@pytest.mark.parametrize(
    ("protocol", "assignor"), [("classic", "roundrobin"), ("consumer", "range")]
)
def test_describe_state_shows_assignor_and_coordinator(
    command, broker, group, topic, protocol, assignor
):
    assignor_options = (
        {"partition_assignment_strategy": assignor}
        if protocol == "classic"
        else {"group_remote_assignor": assignor, "group_protocol": protocol}
    )
    with Reader(broker.address, group, topic, auto_offset_reset="latest", **assignor_options):
        (state,) = command("groups", "describe", group, "--state", "--json").objects
    assert state.pop("coordinator") >= 0
    assert state == {
        "group": group,
        "type": protocol,
        "state": "Stable",
        "assignor": assignor,
        "members": 1,
        "address": broker.address,
    }


def test_group_that_waits_for_a_member_is_reported_as_rebalancing(command, broker, group, topic):
    options = {"auto_offset_reset": "latest", "group_protocol": "consumer"}
    with (
        Reader(broker.address, group, topic, **options),  # revokes nothing until it polls
        Reader.joining(broker.address, group, topic, **options),
    ):
        wait_until(lambda: [group, "consumer", "Rebalancing"] in command("groups", "list").rows)
        described = command("groups", "describe", group, "--state")
        rejected = command(
            *("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
        )
    assert described.err == f"odradek: {group} is rebalancing (Rebalancing)\n"
    assert rejected.complaint.endswith("but its state is Rebalancing")


def test_describe_without_a_name_shows_all_groups(command, broker, group, topic):
    commit(broker.address, f"{group}-a", {(topic, 0): 1})
    commit(broker.address, f"{group}-b", {(topic, 1): 2})
    rows = [row for row in command("groups", "describe").rows if row[1] == topic]
    assert [row[:4] for row in rows] == [
        [f"{group}-a", topic, "0", "1"],
        [f"{group}-b", topic, "1", "2"],
    ]


def test_unknown_group_is_reported_and_the_others_are_shown(command, broker, group, topic):
    assert command("groups", "describe", group).complaint == (
        f"odradek: {group}: there is no such group"
    )
    commit(broker.address, f"{group}-b", {(topic, 0): 1})
    result = command("groups", "describe", group, f"{group}-b", "--state")
    assert result.status == 1
    assert f"{group}-b\tclassic\tEmpty" in result.out


def test_list_is_a_table_on_a_terminal(command, broker, group, topic, monkeypatch):
    commit(broker.address, group, {(topic, 0): 1})
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    lines = command("groups", "list").lines
    assert lines[0].strip() == "Groups"
    assert any(line.split() == [group, "classic", "Empty"] for line in lines)


def test_delete_reports_each_group_separately(command, broker, group, topic):
    commit(broker.address, f"{group}-left", {(topic, 0): 1})
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        result = command("groups", "delete", group, f"{group}-left", "nix", f"{group}-left")
    assert (result.status, result.out) == (1, f"{group}-left deleted\n")
    assert [line.split(": ")[1:3] for line in result.err.splitlines()] == [
        [group, "NON_EMPTY_GROUP"],
        ["nix", "GROUP_ID_NOT_FOUND"],
    ]
    assert command("groups", "delete", group, "nix", "--if-exists").lines == [f"{group} deleted"]
    assert group not in [row[0] for row in command("groups", "list").rows]


def test_all_groups_are_deleted_only_with_the_option(command, broker, group, topic):
    commit(broker.address, group, {(topic, 0): 1})
    message = "odradek: give either groups or --all-groups"
    assert command("groups", "delete").complaint == message
    assert command("groups", "delete", group, "--all-groups").complaint == message
    # Static members of other tests may still be in their groups.
    assert f"{group} deleted\n" in command("groups", "delete", "--all-groups").out
    assert group not in [row[0] for row in command("groups", "list").rows]


def test_delete_offsets_of_topics_and_partitions(command, broker, group, topic):
    offsets = {(topic, 0): 1, (topic, 1): 2, ("kept", 0): 0}
    command("topics", "create", "kept", "--if-not-exists")
    commit(broker.address, group, offsets)
    deleted = command("groups", "delete-offsets", group, "--topic", f"{topic}:1")
    assert deleted.lines == [f"{group}: {topic}:1 deleted"]
    assert _committed(command, group) == {"kept:0": "0", f"{topic}:0": "1"}
    deleted = command("groups", "delete-offsets", group, "--topic", topic)
    assert deleted.lines == [f"{group}: {topic}:{number} deleted" for number in range(3)]
    assert _committed(command, group) == {"kept:0": "0"}


def _committed(command, group):
    rows = [row for row in command("groups", "describe").rows if row[0] == group]
    return {f"{row[1]}:{row[2]}": row[3] for row in rows}


def test_delete_offsets_of_a_subscribed_topic_is_rejected(command, broker, group, topic):
    commit(broker.address, group, {(topic, 0): 1})
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        rejected = command("groups", "delete-offsets", group, "--topic", f"{topic}:0")
    assert f"{group}: {topic}:0: GROUP_SUBSCRIBED_TO_TOPIC: " in rejected.complaint


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nix", "--topic", "nix"], "nix: there is no such group"),
        (["here", "--topic", "nix"], "nix: UNKNOWN_TOPIC"),
        (["here", "--topic", "nix:0"], "nix: UNKNOWN_TOPIC"),
        (["here", "--topic", "there:7"], "there:7: there is no such partition"),
        (
            ["here", "--topic", "t", "--property", "security.protocol=ssl"],
            "=ssl: this command supports plaintext only",
        ),
    ],
)
def test_failed_delete_offsets_is_reported_in_one_line(
    command, broker, topic, arguments, complaint
):
    command("topics", "create", "there", "--if-not-exists")
    commit(broker.address, "here", {(topic, 0): 1})
    assert complaint in command("groups", "delete-offsets", *arguments).complaint


@pytest.mark.parametrize("scope", ["", ":1", "t:", "t:x", "t:1,,2", "t:-1", "t:1:2"])
def test_invalid_scope_exits_with_2(offline, scope):
    result = offline("groups", "delete-offsets", "g", "--topic", scope)
    assert result.status == 2
    assert f"{scope!r} is not TOPIC or TOPIC:0,1" in result.err


def test_bootstrap_server_is_accepted_as_in_kafkas_tools(offline, broker):
    assert offline("groups", "list", "--bootstrap-server", broker.address).status == 0


def test_empty_group_name_is_reported_in_one_line(command):
    assert command("groups", "describe", "").complaint.startswith("odradek: ")
    assert command("groups", "delete", "").complaint.startswith("odradek: ")
