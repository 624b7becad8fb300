"""Waiting for a reassignment: the wait is bounded, and brokers that block it are named."""

import asyncio
import json
import time
from argparse import Namespace

import pytest

from odradek.broker.cli.broker_connections import RetriableError
from odradek.broker.cli.cluster_client import PartitionInfo
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign import command, progress
from odradek.broker.cli.reassign.progress import Progress
from odradek.broker.cli.reassign.reassignments import ReassignmentState
from odradek.broker.cli.reassign.stalls import (
    STALL_TIMEOUT_S,
    StallReporter,
    partitions_blocked_by_broker,
)
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.api.describe_configs import DescribeConfigsRequest
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.error_codes import ErrorCode
from tests.support.scripted_brokers import (
    ScriptedBrokers,
    metadata,
    moving,
    settings_of_topics,
)

DONE, FAILED, INCOMPLETE = 0, 1, 3
FIRST, SECOND = TopicAndPartition("o", 0), TopicAndPartition("o", 1)
#: A reassignment from brokers 0 and 2 to brokers 1 and 2; broker 2 is offline.
REASSIGNING = moving(("o", 0, (1, 2, 0), (1,)))
MIDWAY = metadata([0, 1], {("o", 0): (0, (1, 2, 0), (0, 1))})
BEFORE = metadata([0, 1], {("o", 0): (0, (0, 2), (0,))})
AFTER = metadata([0, 1, 2], {("o", 0): (1, (1, 2), (1, 2))})


# Blocking brokers


def partition(leader, replicas, isr):
    return PartitionInfo(leader, replicas, isr)


@pytest.mark.parametrize(
    ("info", "brokers"),
    [
        (partition(0, (1, 2, 0), (0, 1)), {2: [FIRST]}),
        (partition(0, (1, 2, 0), (0, 1, 2)), {}),
        (partition(None, (1, 2, 0), (0,)), {0: [FIRST], 1: [FIRST], 2: [FIRST]}),
    ],
)
def test_partition_is_blocked_by_replicas_outside_the_isr_and_without_a_leader(info, brokers):
    assert (
        partitions_blocked_by_broker(
            {FIRST: (1, 2)}, {FIRST: ReassignmentState.MOVING}, {FIRST: info}
        )
        == brokers
    )


def test_moved_partition_is_not_blocked():
    infos = {FIRST: partition(1, (1, 2), (1,))}
    assert (
        partitions_blocked_by_broker({FIRST: (1, 2)}, {FIRST: ReassignmentState.MOVED}, infos) == {}
    )


def progress_of(moved_bytes):
    return Progress(0, 2, moved_bytes, 100)


def test_offline_broker_is_named_once_and_again_after_a_change():
    reporter = StallReporter()
    both, one = {2: [FIRST, SECOND]}, {2: [SECOND]}

    def lines(blocked, alive):
        return [*reporter.lines(progress_of(0), blocked, alive)]

    assert lines(both, {0, 1}) == ["broker 2 is offline and blocks o:0, o:1"]
    assert lines(both, {0, 1}) == []
    assert lines(one, {0, 1}) == ["broker 2 is offline and blocks o:1"]
    assert lines(one, {0, 1, 2}) == ["broker 2 is online again"]
    assert lines({}, {0, 1, 2}) == []


def test_long_lists_of_partitions_are_shortened():
    blocked = {2: [TopicAndPartition("o", number) for number in range(9)]}
    (line,) = StallReporter().lines(progress_of(0), blocked, {0})
    assert line == "broker 2 is offline and blocks o:0, o:1, o:2, o:3, o:4 and 4 more"


def test_online_broker_without_progress_is_named_after_the_stall_timeout(monkeypatch):
    now = 0.0
    reporter = StallReporter(clock=lambda: now)

    def lines(moved_bytes):
        return [*reporter.lines(progress_of(moved_bytes), {1: [FIRST]}, {0, 1})]

    assert lines(7) == []
    now += STALL_TIMEOUT_S / 2
    assert lines(8) == []
    now += STALL_TIMEOUT_S
    line = "no progress for 10 s: broker 1 is not in sync with o:0"
    assert (lines(8), lines(8), lines(9)) == ([line], [], [])
    now += STALL_TIMEOUT_S
    assert lines(9) == [line]


# Commands


def altered(code=ErrorCode.NONE):
    response_type = AlterPartitionReassignmentsResponse
    partition = response_type.Topic.Partition(
        partition_index=0, error_code=code.code, error_message=None
    )
    return response_type(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        responses=[response_type.Topic(name="o", partitions=[partition])],
    )


def configured(request):
    response_type = IncrementalAlterConfigsResponse
    responses = [
        response_type.Resource(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    ]
    return response_type(throttle_time_ms=0, responses=responses)


@pytest.fixture
def brokers(monkeypatch):
    monkeypatch.setattr(progress, "POLL_INTERVAL_S", 0.01)
    return ScriptedBrokers(
        {
            MetadataRequest: BEFORE,
            ListPartitionReassignmentsRequest: moving(),
            AlterPartitionReassignmentsRequest: altered(),
            IncrementalAlterConfigsRequest: configured,
            DescribeLogDirsRequest: DescribeLogDirsResponse(throttle_time_ms=0, results=[]),
            DescribeConfigsRequest: lambda request: settings_of_topics(request, text=""),
        }
    )


@pytest.fixture
def arguments(tmp_path):
    path = tmp_path / "plan.json"
    entry = {"topic": "o", "partition": 0, "replicas": [1, 2]}
    path.write_text(json.dumps({"partitions": [entry]}))
    return Namespace(
        plan=str(path),
        throttle=None,
        additional=False,
        rollback_file=tmp_path / "rollback.json",
        wait=False,
        wait_at_most=None,
        preserve_throttles=False,
        json=False,
    )


def start_reassignment(brokers):
    """Put the reassignment in progress and return the response to the request."""
    brokers.answers[MetadataRequest] = MIDWAY
    brokers.answers[ListPartitionReassignmentsRequest] = REASSIGNING
    return altered()


async def test_wait_at_most_ends_the_wait_and_names_the_offline_broker(brokers, arguments, capsys):
    arguments.wait_at_most = 1.0
    brokers.answers[AlterPartitionReassignmentsRequest] = lambda _: start_reassignment(brokers)
    assert await command.execute(arguments, brokers.cluster(0)) == INCOMPLETE
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "Started the reassignment of 1 partition(s)",
        "0 of 1 partitions moved, 0.0 of 0.0 MB",
    ]
    missing, late, continues = printed.err.splitlines()
    assert missing == "odradek: broker 2 is offline and blocks o:0"
    assert late == "odradek: not all partitions have moved after 1 s"
    assert continues.startswith("odradek: the reassignment continues: `odradek reassign verify ")


async def test_wait_at_most_ends_the_wait_if_the_controller_is_silent(brokers, arguments):
    arguments.wait_at_most = 0.2
    brokers.answers[MetadataRequest] = MIDWAY

    def silent_from_now_on(_request):
        del brokers.answers[ListPartitionReassignmentsRequest]
        return altered()

    brokers.answers[AlterPartitionReassignmentsRequest] = silent_from_now_on
    started = time.monotonic()
    assert await command.execute(arguments, brokers.cluster(0, timeout_s=60)) == INCOMPLETE
    assert time.monotonic() - started < 30


async def test_verify_after_the_wait_shows_the_current_state(brokers, arguments, capsys):
    arguments.wait_at_most = 1.0
    start_reassignment(brokers)
    assert await command.verify(arguments, brokers.cluster(0)) == INCOMPLETE
    assert capsys.readouterr().out.splitlines()[-1] == "o\t0\tmoving\t1,2"


async def test_progress_is_not_printed_among_the_json_lines(brokers, arguments, capsys):
    arguments.wait, arguments.json = True, True
    brokers.answers[MetadataRequest] = AFTER
    assert await command.verify(arguments, brokers.cluster(0)) == DONE
    printed = capsys.readouterr()
    assert [json.loads(line)["standing"] for line in printed.out.splitlines()] == ["moved"]
    assert "1 of 1 partitions moved" in printed.err


async def test_interrupt_reports_that_reassignment_and_throttle_remain(brokers, arguments, capsys):
    arguments.wait, arguments.throttle = True, 1000
    listed = asyncio.Event()

    def list_reassignments(_request):
        listed.set()
        return REASSIGNING

    def start(_request):
        brokers.answers[ListPartitionReassignmentsRequest] = list_reassignments
        return altered()

    brokers.answers[AlterPartitionReassignmentsRequest] = start
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(command.execute(arguments, brokers.cluster(0)))
        await listed.wait()
        waiting.cancel()  # as a Ctrl-C does
    assert waiting.cancelled()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "odradek: the reassignment continues, and the throttle remains: `odradek reassign verify "
        f"{arguments.plan}` shows the progress, and removes the throttle when all partitions have "
        "moved"
    )


def changed_configs(brokers):
    """Return the altered values by resource; None stands for a deleted value."""
    return {
        (resource.resource_type, resource.resource_name): [
            config.value for config in resource.configs
        ]
        for _, request in brokers.asked
        if isinstance(request, IncrementalAlterConfigsRequest)
        for resource in request.resources
    }


async def test_throttle_is_removed_if_the_reassignment_is_rejected(brokers, arguments, capsys):
    arguments.throttle = 1000
    brokers.answers[AlterPartitionReassignmentsRequest] = altered(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert await command.execute(arguments, brokers.cluster(0)) == FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "Started the reassignment of 0 partition(s)",
        "Removed the throttles of all brokers and of topics o",
    ]
    assert not any("verify" in line for line in lines)
    assert {value for values in changed_configs(brokers).values() for value in values} == {None}


async def test_throttle_remains_if_the_reassignment_started(brokers, arguments, capsys):
    arguments.throttle = 1000
    assert await command.execute(arguments, brokers.cluster(0)) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == command.THROTTLE_REMAINS_MESSAGE
    assert changed_configs(brokers)[(4, "0")] == ["1000", "1000"]


async def test_throttle_remains_if_another_reassignment_was_in_progress(brokers, arguments, capsys):
    arguments.throttle, arguments.additional = 1000, True
    start_reassignment(brokers)
    brokers.answers[AlterPartitionReassignmentsRequest] = altered(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert await command.execute(arguments, brokers.cluster(0)) == FAILED
    assert "The throttle remains until" in capsys.readouterr().out
    assert changed_configs(brokers)[(4, "0")] == ["1000", "1000"]


async def test_throttle_remains_if_the_outcome_is_unknown(brokers, arguments, capsys):
    arguments.throttle = 1000
    brokers.answers[AlterPartitionReassignmentsRequest] = RetriableError("alas")
    with pytest.raises(RetriableError):
        await command.execute(arguments, brokers.cluster(0, timeout_s=0.5))
    assert capsys.readouterr().err == f"odradek: {command.THROTTLE_REMAINS_MESSAGE}\n"


@pytest.mark.parametrize(("throttled", "is_reported"), [("0:0", True), ("", False)])
async def test_verify_reports_a_removed_throttle(
    brokers, arguments, capsys, throttled, is_reported
):
    brokers.answers[MetadataRequest] = AFTER
    brokers.answers[DescribeConfigsRequest] = lambda request: settings_of_topics(
        request, text=throttled
    )
    assert await command.verify(arguments, brokers.cluster(0)) == DONE
    assert (
        "Removed the throttles of all brokers and of topics o" in capsys.readouterr().out
    ) is is_reported
    assert changed_configs(brokers)[(2, "o")] == [None, None]
