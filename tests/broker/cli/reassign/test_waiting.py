"""Waiting for a reassignment: who holds it up is named, and the waiting has an end."""

import asyncio
import json
import time
from argparse import Namespace

import pytest

from odradek.broker.cli.direct import NoAnswer
from odradek.broker.cli.operated import Partition
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign import command, progress
from odradek.broker.cli.reassign.held_up import STALLED_S, HeldUp, waited_for
from odradek.broker.cli.reassign.moves import Standing
from odradek.broker.cli.reassign.progress import Progress
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

DONE, FAILED, AMISS = 0, 1, 3
FIRST, SECOND = Place("o", 0), Place("o", 1)
#: On its way from broker 0 and 2 to 1 and 2, of which 2 is gone.
UNDER_WAY = moving(("o", 0, (1, 2, 0), (1,)))
MIDWAY = metadata([0, 1], {("o", 0): (0, (1, 2, 0), (0, 1))})
BEFORE = metadata([0, 1], {("o", 0): (0, (0, 2), (0,))})
AFTER = metadata([0, 1, 2], {("o", 0): (1, (1, 2), (1, 2))})


# Who is waited for


def partition(leader, replicas, in_sync):
    return Partition(leader, replicas, in_sync)


@pytest.mark.parametrize(
    ("found", "brokers"),
    [
        (partition(0, (1, 2, 0), (0, 1)), {2: [FIRST]}),
        (partition(0, (1, 2, 0), (0, 1, 2)), {}),
        (partition(None, (1, 2, 0), (0,)), {0: [FIRST], 1: [FIRST], 2: [FIRST]}),
    ],
)
def test_a_partition_waits_for_new_replicas_to_be_in_sync_and_for_a_leader(found, brokers):
    assert waited_for({FIRST: (1, 2)}, {FIRST: Standing.MOVING}, {FIRST: found}) == brokers


def test_what_has_moved_waits_for_nobody():
    found = {FIRST: partition(1, (1, 2), (1,))}
    assert waited_for({FIRST: (1, 2)}, {FIRST: Standing.MOVED}, found) == {}


def progressed(moved_bytes):
    return Progress(0, 2, moved_bytes, 100)


def test_a_broker_that_is_gone_is_named_once_and_again_when_that_changes():
    held_up = HeldUp()
    both, one = {2: [FIRST, SECOND]}, {2: [SECOND]}

    def told(waited, alive):
        return [*held_up.lines(progressed(0), waited, alive)]

    assert told(both, {0, 1}) == ["broker 2 is gone, and o:0, o:1 cannot move without it"]
    assert told(both, {0, 1}) == []
    assert told(one, {0, 1}) == ["broker 2 is gone, and o:1 cannot move without it"]
    assert told(one, {0, 1, 2}) == ["broker 2 is back"]
    assert told({}, {0, 1, 2}) == []


def test_long_lists_are_cut():
    waited = {2: [Place("o", number) for number in range(9)]}
    (line,) = HeldUp().lines(progressed(0), waited, {0})
    assert line == "broker 2 is gone, and o:0, o:1, o:2, o:3, o:4 and 4 more cannot move without it"


def test_who_is_alive_but_does_not_get_on_is_named_after_a_while(monkeypatch):
    now = 0.0
    held_up = HeldUp(clock=lambda: now)

    def told(moved_bytes):
        return [*held_up.lines(progressed(moved_bytes), {1: [FIRST]}, {0, 1})]

    assert told(7) == []
    now += STALLED_S / 2
    assert told(8) == []
    now += STALLED_S
    line = "nothing has moved for 10 s: broker 1 is not in sync with o:0"
    assert (told(8), told(8), told(9)) == ([line], [], [])
    now += STALLED_S
    assert told(9) == [line]


# Commands


def altered(code=ErrorCode.NONE):
    answered = AlterPartitionReassignmentsResponse
    partition = answered.Topic.Partition(
        partition_index=0, error_code=code.code, error_message=None
    )
    return answered(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        responses=[answered.Topic(name="o", partitions=[partition])],
    )


def configured(request):
    answered = IncrementalAlterConfigsResponse
    responses = [
        answered.Resource(
            error_code=0,
            error_message=None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in request.resources
    ]
    return answered(throttle_time_ms=0, responses=responses)


@pytest.fixture
def brokers(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE_S", 0.01)
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


def begun(brokers):
    """An answer after which the reassignment is under way."""
    brokers.answers[MetadataRequest] = MIDWAY
    brokers.answers[ListPartitionReassignmentsRequest] = UNDER_WAY
    return altered()


async def test_the_waiting_ends_when_the_user_says_and_names_who_is_missing(
    brokers, arguments, capsys
):
    arguments.wait_at_most = 1.0
    brokers.answers[AlterPartitionReassignmentsRequest] = lambda _: begun(brokers)
    assert await command.execute(arguments, brokers.cluster(0)) == AMISS
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "1 partitions are reassigned",
        "0 of 1 partitions moved, 0.0 of 0.0 MB",
    ]
    missing, late, goes_on = printed.err.splitlines()
    assert missing == "odradek: broker 2 is gone, and o:0 cannot move without it"
    assert late == "odradek: not all is moved after 1 s"
    assert goes_on.startswith("odradek: what is under way goes on: `odradek reassign verify ")


async def test_the_waiting_ends_in_time_though_the_controller_is_silent(brokers, arguments):
    arguments.wait_at_most = 0.2
    brokers.answers[MetadataRequest] = MIDWAY

    def silent_from_now_on(_request):
        del brokers.answers[ListPartitionReassignmentsRequest]
        return altered()

    brokers.answers[AlterPartitionReassignmentsRequest] = silent_from_now_on
    began = time.monotonic()
    assert await command.execute(arguments, brokers.cluster(0, timeout_s=60)) == AMISS
    assert time.monotonic() - began < 30


async def test_a_verify_that_waited_in_vain_shows_where_all_stands(brokers, arguments, capsys):
    arguments.wait_at_most = 1.0
    begun(brokers)
    assert await command.verify(arguments, brokers.cluster(0)) == AMISS
    assert capsys.readouterr().out.splitlines()[-1] == "o\t0\tmoving\t1,2"


async def test_progress_is_not_among_the_lines_of_json(brokers, arguments, capsys):
    arguments.wait, arguments.json = True, True
    brokers.answers[MetadataRequest] = AFTER
    assert await command.verify(arguments, brokers.cluster(0)) == DONE
    printed = capsys.readouterr()
    assert [json.loads(line)["standing"] for line in printed.out.splitlines()] == ["moved"]
    assert "1 of 1 partitions moved" in printed.err


async def test_an_interrupt_says_that_move_and_throttle_go_on(brokers, arguments, capsys):
    arguments.wait, arguments.throttle = True, 1000
    looked = asyncio.Event()

    def look(_request):
        looked.set()
        return UNDER_WAY

    def begin(_request):
        brokers.answers[ListPartitionReassignmentsRequest] = look
        return altered()

    brokers.answers[AlterPartitionReassignmentsRequest] = begin
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(command.execute(arguments, brokers.cluster(0)))
        await looked.wait()
        waiting.cancel()  # as a Ctrl-C does
    assert waiting.cancelled()
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"odradek: what is under way goes on, and so does the throttle: `odradek reassign verify "
        f"{arguments.plan}` tells how far it is, and removes the throttle once all has moved"
    )


def changed_configs(brokers):
    """By what was changed: the values, None for what was removed."""
    return {
        (each.resource_type, each.resource_name): [config.value for config in each.configs]
        for _, request in brokers.asked
        if isinstance(request, IncrementalAlterConfigsRequest)
        for each in request.resources
    }


async def test_a_throttle_for_what_is_refused_altogether_is_taken_back(brokers, arguments, capsys):
    arguments.throttle = 1000
    brokers.answers[AlterPartitionReassignmentsRequest] = altered(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert await command.execute(arguments, brokers.cluster(0)) == FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["0 partitions are reassigned", "No broker is throttled any more, nor o"]
    assert not any("verify" in line for line in lines)
    assert {value for each in changed_configs(brokers).values() for value in each} == {None}


async def test_a_throttle_stays_with_what_has_begun(brokers, arguments, capsys):
    arguments.throttle = 1000
    assert await command.execute(arguments, brokers.cluster(0)) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == command.THROTTLE_STAYS
    assert changed_configs(brokers)[(4, "0")] == ["1000", "1000"]


async def test_a_throttle_of_what_was_under_way_before_stays(brokers, arguments, capsys):
    arguments.throttle, arguments.additional = 1000, True
    begun(brokers)
    brokers.answers[AlterPartitionReassignmentsRequest] = altered(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert await command.execute(arguments, brokers.cluster(0)) == FAILED
    assert "The throttle stays until" in capsys.readouterr().out
    assert changed_configs(brokers)[(4, "0")] == ["1000", "1000"]


async def test_a_throttle_stays_if_nobody_knows_whether_it_has_begun(brokers, arguments, capsys):
    arguments.throttle = 1000
    brokers.answers[AlterPartitionReassignmentsRequest] = NoAnswer("alas")
    with pytest.raises(NoAnswer):
        await command.execute(arguments, brokers.cluster(0, timeout_s=0.5))
    assert capsys.readouterr().err == f"odradek: {command.THROTTLE_STAYS}\n"


@pytest.mark.parametrize(("throttled", "told"), [("0:0", True), ("", False)])
async def test_verify_says_that_it_has_removed_a_throttle(
    brokers, arguments, capsys, throttled, told
):
    brokers.answers[MetadataRequest] = AFTER
    brokers.answers[DescribeConfigsRequest] = lambda each: settings_of_topics(each, text=throttled)
    assert await command.verify(arguments, brokers.cluster(0)) == DONE
    assert ("No broker is throttled any more, nor o" in capsys.readouterr().out) is told
    assert changed_configs(brokers)[(2, "o")] == [None, None]
