"""``odradek groups reset-offsets`` against a broker with consumers."""

import itertools
from datetime import UTC, datetime

import pytest

from odradek.broker.cli.groups import lookup
from odradek.broker.cli.partitions import TopicAndPartition
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

DRY_RUN = "odradek: dry run: give --execute to commit these offsets"
FIFTH = datetime.fromtimestamp((FIRST_MS + 5) / 1000, UTC).isoformat(timespec="milliseconds")

numbers = itertools.count()


@pytest.fixture
def group():
    return f"reset-{next(numbers)}"


@pytest.fixture
def reset(command, group, topic):
    def run(*arguments, scope=("--topic", topic), execute=True):
        mode = ["--execute"] if execute else ["--dry-run"]
        return command("groups", "reset-offsets", group, *scope, *arguments, *mode)

    return run


@pytest.fixture
def begun(broker, group, topic):
    """The group has committed offsets in both partitions that have records."""
    commit(broker.address, group, {(topic, 0): 4, (topic, 1): 6})


def offsets(result):
    """Return the new offsets by partition. Warnings are ignored."""
    assert result.status == 0, result
    return {int(row[2]): int(row[4]) for row in map(_fields, result.out.splitlines()[1:])}


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
def test_offsets_are_reset_to_the_given_position(command, group, reset, arguments, expected):
    assert offsets(reset(*arguments)) == expected
    assert committed(command, group) == expected


@pytest.mark.parametrize(("distance", "expected"), [(3, [7, 9]), (-4, [0, 2]), (0, [4, 6])])
@pytest.mark.usefixtures("begun")
def test_shift_by_moves_the_committed_offsets(command, group, topic, reset, distance, expected):
    shifted = reset("--shift-by", distance, scope=["--topic", f"{topic}:0,1"])
    assert list(offsets(shifted).values()) == expected
    assert shifted.err == ""
    assert list(committed(command, group).values()) == expected


def test_consumer_continues_at_the_reset_offset(broker, group, topic, reset):
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        pass
    reset("--to-offset", 7)
    assert first_values(broker.address, group, topic, partitions=2) == {"0:7", "1:7"}


def test_group_of_the_consumer_protocol_is_reset(command, broker, group, topic, reset):
    options = {"auto_offset_reset": "latest", "group_protocol": "consumer"}
    with Reader(broker.address, group, topic, **options):
        pass
    reset("--to-offset", 7)
    assert committed(command, group) == {0: 7, 1: 7, 2: 0}


def test_unknown_group_is_created(command, broker, group, topic, reset):
    assert offsets(reset("--to-offset", 2, scope=["--topic", f"{topic}:0"])) == {0: 2}
    assert [group, "classic", "Empty"] in command("groups", "list").rows
    assert committed(command, group) == {0: 2}


def test_topic_without_committed_offsets_is_reset(command, broker, group, topic, reset):
    command("topics", "create", "elsewhere", "--if-not-exists")
    commit(broker.address, group, {("elsewhere", 0): 0})
    assert offsets(reset("--to-latest")) == {0: RECORDS, 1: RECORDS, 2: 0}


def test_dry_run_is_the_default_and_commits_nothing(command, broker, group, topic):
    commit(broker.address, group, {(topic, 0): 4})
    arguments = ["groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-earliest"]
    result = command(*arguments)
    assert (result.status, result.err) == (0, f"{DRY_RUN}\n")
    assert result.out.splitlines() == [
        "group\ttopic\tpartition\tcommitted\tnew_offset",
        f"{group}\t{topic}\t0\t4\t0",
    ]
    assert command(*arguments, "--dry-run", "--json").objects == [
        {"group": group, "topic": topic, "partition": 0, "committed": 4, "new_offset": 0}
    ]
    assert committed(command, group) == {0: 4}


def test_all_topics_means_topics_with_committed_offsets(command, broker, group, topic, reset):
    commit(broker.address, group, {(topic, 0): 4})
    assert offsets(reset("--to-latest", scope=["--all-topics"])) == {0: RECORDS}


def test_deleted_topic_is_skipped(broker, group, topic, reset, monkeypatch):
    existing, deleted = TopicAndPartition(topic, 0), TopicAndPartition("gone", 1)
    monkeypatch.setattr(lookup, "committed_offsets", lambda *_: {group: {existing: 4, deleted: 5}})
    result = reset("--to-latest", scope=["--all-topics"])
    assert offsets(result) == {0: RECORDS}
    assert result.err == f"odradek: {group}: gone: skipping partitions that do not exist\n"


def test_all_topics_of_a_group_without_committed_offsets_is_rejected(group, reset):
    complaint = reset("--to-latest", scope=["--all-topics"]).complaint
    assert complaint == f"odradek: {group}: no committed offsets: give --topic"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("execute", [True, False])
def test_group_with_members_is_rejected(broker, group, topic, reset, protocol, execute):
    options = {"auto_offset_reset": "latest", "group_protocol": protocol}
    with Reader(broker.address, group, topic, **options):
        rejected = reset("--to-earliest", execute=execute)
    assert rejected.out == ""
    assert rejected.complaint == (
        f"odradek: {group}: offsets can be reset only if the group has no members, "
        "but its state is Stable"
    )


def test_member_that_joins_during_the_reset_is_reported(broker, group, topic, reset, monkeypatch):
    monkeypatch.setattr(
        lookup, "describe_groups", lambda _, groups, timeout_s: dict.fromkeys(groups)
    )
    with Reader(broker.address, group, topic, auto_offset_reset="latest"):
        rejected = reset("--to-earliest", scope=["--topic", f"{topic}:1"])
    assert rejected.out == ""
    assert rejected.complaint.startswith(f"odradek: {group}: {topic}:1: UNKNOWN_MEMBER_ID: ")


@pytest.mark.usefixtures("begun")
def test_offset_outside_the_log_becomes_its_start_or_end_offset(group, topic, reset):
    scope = ["--topic", f"{topic}:0", "--topic", f"{topic}:1"]
    past = reset("--shift-by", "5", scope=scope)
    assert offsets(past) == {0: 9, 1: RECORDS}
    assert past.err == (
        f"odradek: {group}: {topic}:1: offset 11 is above the log end offset; using 10\n"
    )
    before = reset("--shift-by", "-10", scope=scope)
    assert offsets(before) == {0: 0, 1: 0}
    assert before.err == (
        f"odradek: {group}: {topic}:0: offset -1 is below the log start offset; using 0\n"
    )


def test_partition_without_records_after_the_time_is_reported(group, topic, reset):
    result = reset("--to-datetime", f"@{FIRST_MS}")
    assert result.err == (
        f"odradek: {group}: {topic}:2: no record at or after that time; "
        "using the log end offset 0\n"
    )


def test_partition_without_committed_offset_cannot_be_shifted(group, topic, reset):
    complaint = reset("--shift-by", 1, scope=["--topic", f"{topic}:1"]).complaint
    assert complaint == f"odradek: {group}: {topic}:1: no committed offset to shift from"


def test_reset_reports_each_group_separately(command, broker, group, topic):
    commit(broker.address, f"{group}-b", {(topic, 0): 4})
    with Reader(broker.address, f"{group}-a", topic, auto_offset_reset="latest"):
        result = command(
            *("groups", "reset-offsets", f"{group}-a", f"{group}-b", f"{group}-b"),
            *("--topic", f"{topic}:0", "--to-latest", "--execute"),
        )
    assert f"odradek: {group}-a: " in result.complaint
    assert result.out.splitlines()[1:] == [f"{group}-b\t{topic}\t0\t4\t10"]


def test_all_groups_are_reset_with_the_option(command, broker, group, topic):
    commit(broker.address, f"{group}-a", {(topic, 0): 4})
    commit(broker.address, f"{group}-b", {(topic, 1): 5})
    result = command("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-latest")
    assert f"{group}-a\t{topic}\t0\t4\t10\n{group}-b\t{topic}\t1\t5\t10" in result.out


@pytest.mark.usefixtures("begun")
def test_exported_plan_can_be_imported(command, group, topic, reset, tmp_path):
    exported = reset("--to-current", "--export", scope=["--all-topics"], execute=False)
    assert exported.lines == [f"{topic},0,4", f"{topic},1,6"]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    reset("--to-latest")
    assert offsets(reset("--from-file", plan, scope=[])) == {0: 4, 1: 6}
    assert committed(command, group) == {0: 4, 1: 6, 2: 0}


def test_exported_plan_of_several_groups_names_the_groups(command, broker, group, topic, tmp_path):
    groups = [f"{group}-a", f"{group}-b"]
    for name in groups:
        commit(broker.address, name, {(topic, 0): 4})
    arguments = ["groups", "reset-offsets", *groups, "--all-topics", "--to-latest", "--export"]
    exported = command(*arguments, "--dry-run")
    assert exported.lines == [f"{name},{topic},0,10" for name in groups]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    command("groups", "reset-offsets", "--from-file", plan, "--execute")
    assert committed(command, groups[0]) == committed(command, groups[1]) == {0: 10}


def test_plan_of_several_groups_can_be_limited_to_one(command, broker, group, topic):
    plan = f"{group},{topic},0,3\n\nother,{topic},0,5\n".encode()
    arguments = ["groups", "reset-offsets", "--from-file", "-"]
    result = command(*arguments, group, "--execute", stdin=plan)
    assert result.lines[1:] == [f"{group}\t{topic}\t0\t-\t3"]
    complaint = command(*arguments, "nix", stdin=plan).complaint
    assert complaint == "odradek: nix: no line for this group in -"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--to-earliest"], "no topics: give --topic or --all-topics"),
        (["--topic", "nix", "--to-earliest"], "nix: UNKNOWN_TOPIC"),
        (["--topic", "nix:0", "--to-earliest"], "nix: UNKNOWN_TOPIC"),
        (["--topic", "there:7", "--to-offset", "1"], "there:7: there is no such partition"),
        (["--all-groups", "--all-topics", "--to-latest"], "give either groups or --all-groups"),
        (["--from-file", "no-such-file"], "no-such-file: No such file or directory"),
        (["--from-file", "-", "--all-topics"], "--from-file names the partitions: give no --topic"),
        (["--from-file", "-"], "-: the file is empty"),
    ],
)
def test_failed_reset_is_reported_in_one_line(command, group, arguments, complaint):
    command("topics", "create", "there", "--if-not-exists")
    assert complaint in command("groups", "reset-offsets", group, *arguments).complaint


@pytest.mark.parametrize("partition", ["there,7", "nix,0"])
def test_plan_line_for_an_unknown_partition_is_reported(command, group, partition):
    command("topics", "create", "there", "--if-not-exists")
    arguments = ["groups", "reset-offsets", group, "--from-file", "-", "--execute"]
    complaint = command(*arguments, stdin=f"{partition},0\nthere,0,0\n".encode()).complaint
    assert complaint == (
        f"odradek: {partition.replace(',', ':')}: there is no such partition, or it has no leader"
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
def test_invalid_arguments_exit_with_2(offline, arguments):
    assert offline("groups", "reset-offsets", "g", *arguments).status == 2
