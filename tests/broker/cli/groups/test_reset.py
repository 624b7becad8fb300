"""``odradek groups reset-offsets`` against a broker with consumers."""

import itertools
from datetime import UTC, datetime

import pytest

from odradek.broker.cli.groups import lookup
from odradek.broker.cli.partitions import Place
from tests.support.broker_stores import new_store
from tests.support.group_readers import (
    FIRST_MS,
    RECORDS,
    Reader,
    broker,
    commit,
    first_values,
    topic,
)

__all__ = ["broker", "new_store", "topic"]

DRY_RUN = "odradek: a dry run: --execute commits this"
FIFTH = datetime.fromtimestamp((FIRST_MS + 5) / 1000, UTC).isoformat(timespec="milliseconds")

numbers = itertools.count()


@pytest.fixture
def group():
    return f"reset-{next(numbers)}"


@pytest.fixture
def reset(command, group, topic):
    def run(*arguments, scope=("--topic", topic), execute=True):
        how = ["--execute"] if execute else ["--dry-run"]
        return command("groups", "reset-offsets", group, *scope, *arguments, *how)

    return run


@pytest.fixture
def begun(broker, group, topic):
    """The group has read something of both partitions that have records."""
    commit(broker.address, group, {(topic, 0): 4, (topic, 1): 6})


def offsets(ran):
    """By partition; what it warned of is not looked at."""
    assert ran.status == 0, ran
    return {int(row[2]): int(row[4]) for row in map(_fields, ran.out.splitlines()[1:])}


def _fields(line):
    return line.split("\t")


def committed(command, group):
    rows = map(_fields, command("groups", "describe", group).out.splitlines()[1:])
    return {int(row[2]): int(row[3]) for row in rows}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0, 2: 0}),
        (["--to-latest"], {0: RECORDS, 1: RECORDS, 2: 0}),
        (["--to-current"], {0: 4, 1: 6, 2: 0}),
        (["--to-offset", "3"], {0: 3, 1: 3, 2: 0}),
        (["--to-datetime", FIFTH], {0: 5, 1: 5, 2: 0}),
        (["--to-datetime", FIFTH.partition("+")[0]], {0: 5, 1: 5, 2: 0}),
        (["--to-datetime", f"@{FIRST_MS + 7}"], {0: 7, 1: 7, 2: 0}),
        (["--to-datetime", "2100-01-01T00:00:00.000"], {0: RECORDS, 1: RECORDS, 2: 0}),
        (["--by-duration", "P20000D"], {0: 0, 1: 0, 2: 0}),
        (["--by-duration", "PT0S"], {0: RECORDS, 1: RECORDS, 2: 0}),
    ],
)
@pytest.mark.usefixtures("begun")
def test_offsets_are_reset_to_where_was_said(command, group, reset, arguments, expected):
    assert offsets(reset(*arguments)) == expected
    assert committed(command, group) == expected


@pytest.mark.parametrize(("distance", "expected"), [(3, [7, 9]), (-4, [0, 2]), (0, [4, 6])])
@pytest.mark.usefixtures("begun")
def test_offsets_are_shifted(command, group, topic, reset, distance, expected):
    shifted = reset("--shift-by", distance, scope=["--topic", f"{topic}:0,1"])
    assert list(offsets(shifted).values()) == expected
    assert shifted.err == ""
    assert list(committed(command, group).values()) == expected


def test_a_consumer_goes_on_where_its_group_was_reset_to(broker, group, topic, reset):
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        pass
    reset("--to-offset", 7)
    assert first_values(broker.address, group, topic, partitions=2) == {"0:7", "1:7"}


def test_a_group_of_the_consumer_protocol_is_reset_too(command, broker, group, topic, reset):
    options = {"auto_offset_reset": "latest", "group_protocol": "consumer"}
    with Reader(broker.address, group, topic, **options):
        pass
    reset("--to-offset", 7)
    assert committed(command, group) == {0: 7, 1: 7, 2: 0}


def test_a_group_that_is_not_there_is_made(command, broker, group, topic, reset):
    assert offsets(reset("--to-offset", 2, scope=["--topic", f"{topic}:0"])) == {0: 2}
    assert [group, "classic", "Empty"] in command("groups", "list").rows
    assert committed(command, group) == {0: 2}


def test_a_topic_of_which_nothing_is_committed_is_reset(command, broker, group, topic, reset):
    command("topics", "create", "elsewhere", "--if-not-exists")
    commit(broker.address, group, {("elsewhere", 0): 0})
    assert offsets(reset("--to-latest")) == {0: RECORDS, 1: RECORDS, 2: 0}


def test_nothing_is_written_unless_that_is_said(command, broker, group, topic):
    commit(broker.address, group, {(topic, 0): 4})
    words = ["groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-earliest"]
    ran = command(*words)
    assert (ran.status, ran.err) == (0, f"{DRY_RUN}\n")
    assert ran.out.splitlines() == [
        "group\ttopic\tpartition\tcommitted\tnew_offset",
        f"{group}\t{topic}\t0\t4\t0",
    ]
    assert command(*words, "--dry-run", "--json").objects == [
        {"group": group, "topic": topic, "partition": 0, "committed": 4, "new_offset": 0}
    ]
    assert committed(command, group) == {0: 4}


def test_all_topics_are_those_of_which_something_is_committed(command, broker, group, topic, reset):
    commit(broker.address, group, {(topic, 0): 4})
    assert offsets(reset("--to-latest", scope=["--all-topics"])) == {0: RECORDS}


def test_a_topic_that_was_deleted_is_passed_over(broker, group, topic, reset, monkeypatch):
    there, gone = Place(topic, 0), Place("gone", 1)
    monkeypatch.setattr(lookup, "committed", lambda *_: {group: {there: 4, gone: 5}})
    ran = reset("--to-latest", scope=["--all-topics"])
    assert offsets(ran) == {0: RECORDS}
    assert ran.err == f"odradek: {group}: gone: partitions that are gone are passed over\n"


def test_a_group_that_has_committed_nothing_has_no_topics(group, reset):
    complaint = reset("--to-latest", scope=["--all-topics"]).complaint
    assert complaint == f"odradek: {group}: nothing is committed; say with --topic what to reset"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("execute", [True, False])
def test_a_group_with_members_is_refused(broker, group, topic, reset, protocol, execute):
    options = {"auto_offset_reset": "latest", "group_protocol": protocol}
    with Reader(broker.address, group, topic, **options):
        refused = reset("--to-earliest", execute=execute)
    assert refused.out == ""
    assert refused.complaint == (
        f"odradek: {group}: offsets can be reset only while a group has no members, "
        "and it is Stable"
    )


def test_a_member_that_comes_in_between_is_told(broker, group, topic, reset, monkeypatch):
    monkeypatch.setattr(lookup, "described", lambda _, groups, timeout_s: dict.fromkeys(groups))
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        refused = reset("--to-earliest", scope=["--topic", f"{topic}:1"])
    assert refused.out == ""
    assert refused.complaint.startswith(f"odradek: {group}: {topic}:1: UNKNOWN_MEMBER_ID: ")


@pytest.mark.usefixtures("begun")
def test_an_offset_outside_the_log_becomes_its_start_or_end(group, topic, reset):
    scope = ["--topic", f"{topic}:0", "--topic", f"{topic}:1"]
    past = reset("--shift-by", "5", scope=scope)
    assert offsets(past) == {0: 9, 1: RECORDS}
    assert past.err == f"odradek: {group}: {topic}:1: 11 is past the end of the log; 10 is taken\n"
    before = reset("--shift-by", "-10", scope=scope)
    assert offsets(before) == {0: 0, 1: 0}
    assert before.err == (
        f"odradek: {group}: {topic}:0: -1 is before the start of the log; 0 is taken\n"
    )


def test_a_partition_without_records_of_that_time_is_told(group, topic, reset):
    ran = reset("--to-datetime", f"@{FIRST_MS}")
    assert ran.err == (
        f"odradek: {group}: {topic}:2: no record is of that time or later; its end, 0, is taken\n"
    )


def test_what_is_not_committed_cannot_be_shifted(group, topic, reset):
    complaint = reset("--shift-by", 1, scope=["--topic", f"{topic}:1"]).complaint
    assert complaint == f"odradek: {group}: {topic}:1: nothing is committed to shift from"


def test_several_groups_are_reset_and_each_fails_alone(command, broker, group, topic):
    commit(broker.address, f"{group}-b", {(topic, 0): 4})
    with Reader(broker.address, f"{group}-a", topic, auto_offset_reset="latest"):
        ran = command(
            *("groups", "reset-offsets", f"{group}-a", f"{group}-b", f"{group}-b"),
            *("--topic", f"{topic}:0", "--to-latest", "--execute"),
        )
    assert f"odradek: {group}-a: " in ran.complaint
    assert ran.out.splitlines()[1:] == [f"{group}-b\t{topic}\t0\t4\t10"]


def test_all_groups_are_reset_on_demand(command, broker, group, topic):
    commit(broker.address, f"{group}-a", {(topic, 0): 4})
    commit(broker.address, f"{group}-b", {(topic, 1): 5})
    ran = command("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-latest")
    assert f"{group}-a\t{topic}\t0\t4\t10\n{group}-b\t{topic}\t1\t5\t10" in ran.out


@pytest.mark.usefixtures("begun")
def test_what_is_exported_can_be_read_back(command, group, topic, reset, tmp_path):
    exported = reset("--to-current", "--export", scope=["--all-topics"], execute=False)
    assert exported.lines == [f"{topic},0,4", f"{topic},1,6"]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    reset("--to-latest")
    assert offsets(reset("--from-file", plan, scope=[])) == {0: 4, 1: 6}
    assert committed(command, group) == {0: 4, 1: 6, 2: 0}


def test_a_file_for_several_groups_names_them(command, broker, group, topic, tmp_path):
    named = [f"{group}-a", f"{group}-b"]
    for each in named:
        commit(broker.address, each, {(topic, 0): 4})
    words = ["groups", "reset-offsets", *named, "--all-topics", "--to-latest", "--export"]
    exported = command(*words, "--dry-run")
    assert exported.lines == [f"{each},{topic},0,10" for each in named]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    command("groups", "reset-offsets", "--from-file", plan, "--execute")
    assert committed(command, named[0]) == committed(command, named[1]) == {0: 10}


def test_of_a_file_for_several_groups_one_may_be_meant(command, broker, group, topic):
    plan = f"{group},{topic},0,3\n\nother,{topic},0,5\n".encode()
    words = ["groups", "reset-offsets", "--from-file", "-"]
    ran = command(*words, group, "--execute", stdin=plan)
    assert ran.lines[1:] == [f"{group}\t{topic}\t0\t-\t3"]
    complaint = command(*words, "nix", stdin=plan).complaint
    assert complaint == "odradek: nix: - has no line for it"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--to-earliest"], "of which topics? give --topic or --all-topics"),
        (["--topic", "nix", "--to-earliest"], "nix: UNKNOWN_TOPIC"),
        (["--topic", "nix:0", "--to-earliest"], "nix: UNKNOWN_TOPIC"),
        (["--topic", "there:7", "--to-offset", "1"], "there:7: there is no such partition"),
        (["--all-groups", "--all-topics", "--to-latest"], "name groups, or give --all-groups"),
        (["--from-file", "no-such-file"], "no-such-file: No such file or directory"),
        (["--from-file", "-", "--all-topics"], "--from-file goes without a topic"),
        (["--from-file", "-"], "-: nothing is in it"),
    ],
)
def test_what_cannot_be_reset_is_told_in_one_line(command, group, arguments, complaint):
    command("topics", "create", "there", "--if-not-exists")
    assert complaint in command("groups", "reset-offsets", group, *arguments).complaint


@pytest.mark.parametrize("place", ["there,7", "nix,0"])
def test_a_line_of_a_file_for_what_is_not_there_is_told(command, group, place):
    command("topics", "create", "there", "--if-not-exists")
    words = ["groups", "reset-offsets", group, "--from-file", "-", "--execute"]
    complaint = command(*words, stdin=f"{place},0\nthere,0,0\n".encode()).complaint
    assert complaint == (
        f"odradek: {place.replace(',', ':')}: there is no such partition, or no leader of it"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topic", "t"],
        ["--topic", "t", "--to-earliest", "--to-latest"],
        ["--topic", "t", "--to-earliest", "--to-offset", "1"],
        ["--topic", "t", "--all-topics", "--to-earliest"],
        ["--topic", "t", "--to-earliest", "--execute", "--dry-run"],
        ["--topic", "t", "--to-earliest", "--export", "--json"],
        ["--topic", "t", "--to-offset", "x"],
        ["--topic", "t", "--shift-by", "1.5"],
        ["--topic", "t", "--to-datetime", "soon"],
        ["--topic", "t", "--by-duration", "1 day"],
    ],
)
def test_what_makes_no_sense_has_status_2(offline, arguments):
    assert offline("groups", "reset-offsets", "g", *arguments).status == 2
