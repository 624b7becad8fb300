"""Plans of reassignments, proposals, and throttles; what is amiss with partitions."""

import json
from random import Random

import pytest

from odradek.broker.cli.clusters.health import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    health,
)
from odradek.broker.cli.direct import Address
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import Broker, Partition, Picture
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign import plans, throttles
from odradek.broker.cli.reassign.moves import UnderWay
from odradek.broker.cli.reassign.proposal import proposed

#: As kafka-reassign-partitions prints it; tests/interop/test_operations_tools_live.py asks it.
OF_KAFKA = (
    '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,0],'
    '"log_dirs":["any","any"]},{"topic":"orders","partition":1,"replicas":[0,1],'
    '"log_dirs":["any","any"]}]}'
)
#: For any number in a request.
TOO_LARGE = 99_999_999_999_999
FIRST, SECOND = Place("orders", 0), Place("orders", 1)


def picture(*replicas, racks=(None, None, None)):
    brokers = {
        number: Broker(Address("h", 9092 + number), rack) for number, rack in enumerate(racks)
    }
    partitions = {
        Place("orders", number): Partition(at[0], at, at) for number, at in enumerate(replicas)
    }
    return Picture("id", 0, brokers, partitions)


def test_a_plan_is_read_and_written_as_kafkas_tool_has_it(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(OF_KAFKA)
    plan = plans.read_plan(str(path))
    assert plan == ({FIRST: (2, 0), SECOND: (0, 1)}, {})
    assert plans.written(plan.replicas) == OF_KAFKA


def test_a_plan_needs_neither_a_version_nor_directories(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}')
    assert plans.read_plan(str(path)) == ({FIRST: (1,)}, {})


def test_a_plan_may_name_directories_of_some_replicas(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [entry(log_dirs=["any", "/d"])]}))
    assert plans.read_plan(str(path)).directories == {plans.At(FIRST, 2): "/d"}


def entry(**changes):
    return {"topic": "orders", "partition": 0, "replicas": [1, 2], **changes}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "has no partitions"),
        ({"partitions": []}, "has no partitions"),
        ({"version": 2, "partitions": [entry()]}, "version must be 1"),
        ({"partitions": ["orders"]}, "names no topic and partition"),
        ({"partitions": [entry(partition=-1)]}, "names no topic and partition"),
        ({"partitions": [entry(partition=True)]}, "names no topic and partition"),
        ({"partitions": [entry(), entry()]}, "orders:0 is there twice"),
        ({"partitions": [entry(partition=TOO_LARGE)]}, "names no topic and partition"),
        ({"partitions": [entry(topic="o" * 40_000)]}, "at most 249 characters, not 40000"),
        ({"partitions": [entry(replicas=[TOO_LARGE])]}, "ids of brokers, from 0 to 2147483647"),
        ('{"partitions": [%s]}' % ("9" * 5_000), "is not JSON"),
        ({"partitions": [entry(replicas=[])]}, "each of them once"),
        ({"partitions": [entry(replicas=[1, 1])]}, "each of them once"),
        ({"partitions": [entry(replicas="12")]}, "each of them once"),
        ({"partitions": [entry(log_dirs=["any"])]}, "one for each replica"),
        ({"partitions": [entry(log_dirs=["any", 1])]}, "one for each replica"),
    ],
)
def test_a_plan_that_makes_no_sense_is_told_in_one_line(tmp_path, content, why):
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(CommandFailed, match=why) as failed:
        plans.read_plan(str(path))
    assert "\n" not in str(failed.value)
    assert len(str(failed.value)) < 500


def test_topics_are_read_as_kafkas_tool_has_them(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text('{"topics": [{"topic": "a"}, {"topic": "b"}, {"topic": "a"}], "version": 1}')
    assert plans.read_topics(str(path)) == ["a", "b"]
    path.write_text('{"topics": [{"name": "a"}]}')
    with pytest.raises(CommandFailed, match="topics must be objects"):
        plans.read_topics(str(path))
    path.write_text(json.dumps({"topics": [{"topic": "o" * 250}]}))
    with pytest.raises(CommandFailed, match="at most 249 characters, not 250"):
        plans.read_topics(str(path))


def test_partitions_to_elect_for_are_numbers_of_the_protocol(tmp_path):
    path = tmp_path / "partitions.json"
    path.write_text(json.dumps({"partitions": [{"topic": "o", "partition": TOO_LARGE}]}))
    with pytest.raises(CommandFailed, match="names no topic and partition"):
        plans.read_places(str(path))


def test_a_proposal_spreads_leaders_and_keeps_the_number_of_replicas():
    plan = proposed(picture((0, 1), (0, 1), (0, 1)), [0, 1, 2], random=Random(1))
    assert sorted(replicas[0] for replicas in plan.values()) == [0, 1, 2]
    assert all(len(set(replicas)) == 2 for replicas in plan.values())


def test_a_proposal_is_spread_over_racks():
    racks = ("a", "a", "b")
    plan = proposed(picture((0, 1), (1, 0), racks=racks), [0, 1, 2], random=Random(1))
    assert all({racks[each] for each in replicas} == {"a", "b"} for replicas in plan.values())


def test_a_proposal_that_cannot_be_made_says_why():
    with pytest.raises(CommandFailed, match="broker 7: there is no such broker"):
        proposed(picture((0, 1)), [0, 7], random=Random(1))
    with pytest.raises(CommandFailed, match="Replication factor 2 needs as many brokers"):
        proposed(picture((0, 1)), [0], random=Random(1))
    with pytest.raises(CommandFailed, match="--disable-rack-aware"):
        proposed(picture((0, 1), racks=("a", "b", None)), [0, 2], random=Random(1))


def test_sources_and_readers_are_throttled_and_those_that_stay_are_not():
    plan = {FIRST: (1, 2), SECOND: (0, 1)}
    moves = throttles.moves_of(plan, {FIRST: (0, 1), SECOND: (0, 1)}, {})
    assert throttles._of_topics(moves) == {
        "orders": {throttles.LEADERS: "0:0,0:1", throttles.FOLLOWERS: "0:2"}
    }


def test_a_throttle_holds_for_what_is_under_way_already():
    moving = {SECOND: UnderWay((0, 1, 2), (2,), (0,))}
    moves = throttles.moves_of({FIRST: (0, 2)}, {FIRST: (0, 1)}, moving)
    assert throttles._of_topics(moves) == {
        "orders": {throttles.LEADERS: "0:0,0:1,1:0,1:1", throttles.FOLLOWERS: "0:2,1:2"}
    }


def with_partition(leader, replicas, in_sync):
    found = picture(replicas)
    return Picture("id", 0, found.brokers, {FIRST: Partition(leader, replicas, in_sync)})


@pytest.mark.parametrize(
    ("partition", "troubles"),
    [
        ((0, (0, 1, 2), (0, 1, 2)), []),
        ((0, (0, 1, 2), (0, 1)), [UNDER_REPLICATED]),
        ((0, (0, 1, 2), (0,)), [UNDER_REPLICATED, UNDER_MIN_ISR]),
        ((None, (0, 1), (0,)), [OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR]),
        ((0, (0,), (0,)), []),  # acks=all works: no more than all replicas can be wanted
    ],
)
def test_what_is_amiss_with_a_partition_is_found(partition, troubles):
    found = health(with_partition(*partition), min_in_sync={"orders": 2})
    assert found.amiss == ({FIRST: troubles} if troubles else {})


def test_a_replica_that_is_on_its_way_is_not_missed():
    moving = {FIRST: UnderWay((0, 1, 2), (2,), (0,))}
    assert health(with_partition(0, (0, 1, 2), (0, 1)), moving).amiss == {}
    assert health(with_partition(0, (0, 1, 2), (0, 2)), moving).count(UNDER_REPLICATED) == 1
