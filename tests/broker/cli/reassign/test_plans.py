"""Reassignment plans, proposals, throttles and the health of partitions."""

import json
from random import Random

import pytest

from odradek.broker.cli.broker_connections import Address
from odradek.broker.cli.cluster_client import Broker, MetadataSnapshot, PartitionInfo
from odradek.broker.cli.clusters.health import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    check_health,
)
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign import plans, throttles
from odradek.broker.cli.reassign.proposal import generate_plan
from odradek.broker.cli.reassign.reassignments import PartitionReassignment

#: As kafka-reassign-partitions prints it; tests/interop/test_operations_tools_live.py compares.
KAFKA_PLAN = (
    '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,0],'
    '"log_dirs":["any","any"]},{"topic":"orders","partition":1,"replicas":[0,1],'
    '"log_dirs":["any","any"]}]}'
)
#: Larger than any number in a request.
TOO_LARGE = 99_999_999_999_999
FIRST, SECOND = TopicAndPartition("orders", 0), TopicAndPartition("orders", 1)


def metadata_snapshot(*replicas, racks=(None, None, None)):
    brokers = {
        number: Broker(Address("h", 9092 + number), rack) for number, rack in enumerate(racks)
    }
    partitions = {
        TopicAndPartition("orders", number): PartitionInfo(broker_ids[0], broker_ids, broker_ids)
        for number, broker_ids in enumerate(replicas)
    }
    return MetadataSnapshot("id", 0, brokers, partitions)


def test_plan_has_the_format_of_kafkas_tool(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(KAFKA_PLAN)
    plan = plans.read_plan(str(path))
    assert plan == ({FIRST: (2, 0), SECOND: (0, 1)}, {})
    assert plans.format_plan(plan.replicas) == KAFKA_PLAN


def test_plan_needs_neither_a_version_nor_log_dirs(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}')
    assert plans.read_plan(str(path)) == ({FIRST: (1,)}, {})


def test_plan_may_name_the_log_dirs_of_some_replicas(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [entry(log_dirs=["any", "/d"])]}))
    assert plans.read_plan(str(path)).log_dirs == {plans.TopicPartitionReplica(FIRST, 2): "/d"}


def entry(**changes):
    return {"topic": "orders", "partition": 0, "replicas": [1, 2], **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "invalid JSON"),
        ("[]", "has no partitions"),
        ({"partitions": []}, "has no partitions"),
        ({"version": 2, "partitions": [entry()]}, "version must be 1"),
        ({"partitions": ["orders"]}, "needs a topic and a partition"),
        ({"partitions": [entry(partition=-1)]}, "needs a topic and a partition"),
        ({"partitions": [entry(partition=True)]}, "needs a topic and a partition"),
        ({"partitions": [entry(), entry()]}, "orders:0: duplicate partition"),
        ({"partitions": [entry(partition=TOO_LARGE)]}, "needs a topic and a partition"),
        ({"partitions": [entry(topic="o" * 40_000)]}, "at most 249 characters, not 40000"),
        ({"partitions": [entry(replicas=[TOO_LARGE])]}, "distinct broker ids from 0 to 2147483647"),
        ('{"partitions": [%s]}' % ("9" * 5_000), "invalid JSON"),
        ({"partitions": [entry(replicas=[])]}, "must be one or more distinct broker ids"),
        ({"partitions": [entry(replicas=[1, 1])]}, "must be one or more distinct broker ids"),
        ({"partitions": [entry(replicas="12")]}, "must be one or more distinct broker ids"),
        ({"partitions": [entry(log_dirs=["any"])]}, "log_dirs must have one entry per replica"),
        ({"partitions": [entry(log_dirs=["any", 1])]}, "log_dirs must have one entry per replica"),
    ],
)
def test_invalid_plan_is_reported_in_one_line(tmp_path, content, message):
    path = tmp_path / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(CommandFailed, match=message) as raised:
        plans.read_plan(str(path))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


def test_topics_file_has_the_format_of_kafkas_tool(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text('{"topics": [{"topic": "a"}, {"topic": "b"}, {"topic": "a"}], "version": 1}')
    assert plans.read_topics(str(path)) == ["a", "b"]
    path.write_text('{"topics": [{"name": "a"}]}')
    with pytest.raises(CommandFailed, match="topics must be objects"):
        plans.read_topics(str(path))
    path.write_text(json.dumps({"topics": [{"topic": "o" * 250}]}))
    with pytest.raises(CommandFailed, match="at most 249 characters, not 250"):
        plans.read_topics(str(path))


def test_partition_of_an_election_must_fit_the_protocol(tmp_path):
    path = tmp_path / "partitions.json"
    path.write_text(json.dumps({"partitions": [{"topic": "o", "partition": TOO_LARGE}]}))
    with pytest.raises(CommandFailed, match="needs a topic and a partition"):
        plans.read_partitions(str(path))


def test_proposal_spreads_leaders_and_keeps_the_replication_factor():
    plan = generate_plan(metadata_snapshot((0, 1), (0, 1), (0, 1)), [0, 1, 2], random=Random(1))
    assert sorted(replicas[0] for replicas in plan.values()) == [0, 1, 2]
    assert all(len(set(replicas)) == 2 for replicas in plan.values())


def test_proposal_spreads_replicas_over_racks():
    racks = ("a", "a", "b")
    plan = generate_plan(
        metadata_snapshot((0, 1), (1, 0), racks=racks), [0, 1, 2], random=Random(1)
    )
    assert all(
        {racks[broker_id] for broker_id in replicas} == {"a", "b"} for replicas in plan.values()
    )


def test_impossible_proposal_is_rejected_with_a_reason():
    with pytest.raises(CommandFailed, match="broker 7: there is no such broker"):
        generate_plan(metadata_snapshot((0, 1)), [0, 7], random=Random(1))
    with pytest.raises(CommandFailed, match="Replication factor: 2 larger than available brokers"):
        generate_plan(metadata_snapshot((0, 1)), [0], random=Random(1))
    with pytest.raises(CommandFailed, match="--disable-rack-aware"):
        generate_plan(metadata_snapshot((0, 1), racks=("a", "b", None)), [0, 2], random=Random(1))


def test_throttle_lists_current_and_adding_replicas_but_not_unmoved_ones():
    plan = {FIRST: (1, 2), SECOND: (0, 1)}
    moves = throttles.calculate_moves(plan, {FIRST: (0, 1), SECOND: (0, 1)}, {})
    assert throttles._throttled_replicas_by_topic(moves) == {
        "orders": {
            throttles.LEADER_THROTTLED_REPLICAS: "0:0,0:1",
            throttles.FOLLOWER_THROTTLED_REPLICAS: "0:2",
        }
    }


def test_throttle_includes_ongoing_reassignments():
    ongoing = {SECOND: PartitionReassignment((0, 1, 2), (2,), (0,))}
    moves = throttles.calculate_moves({FIRST: (0, 2)}, {FIRST: (0, 1)}, ongoing)
    assert throttles._throttled_replicas_by_topic(moves) == {
        "orders": {
            throttles.LEADER_THROTTLED_REPLICAS: "0:0,0:1,1:0,1:1",
            throttles.FOLLOWER_THROTTLED_REPLICAS: "0:2,1:2",
        }
    }


def snapshot_with_partition(leader, replicas, isr):
    snapshot = metadata_snapshot(replicas)
    return MetadataSnapshot(
        "id", 0, snapshot.brokers, {FIRST: PartitionInfo(leader, replicas, isr)}
    )


@pytest.mark.parametrize(
    ("partition", "problems"),
    [
        ((0, (0, 1, 2), (0, 1, 2)), []),
        ((0, (0, 1, 2), (0, 1)), [UNDER_REPLICATED]),
        ((0, (0, 1, 2), (0,)), [UNDER_REPLICATED, UNDER_MIN_ISR]),
        ((None, (0, 1), (0,)), [OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR]),
        ((0, (0,), (0,)), []),  # acks=all works: min ISR cannot exceed the number of replicas
    ],
)
def test_problems_of_a_partition_are_found(partition, problems):
    health = check_health(snapshot_with_partition(*partition), min_isr={"orders": 2})
    assert health.problems == ({FIRST: problems} if problems else {})


def test_adding_replica_is_not_counted_as_under_replicated():
    ongoing = {FIRST: PartitionReassignment((0, 1, 2), (2,), (0,))}
    assert check_health(snapshot_with_partition(0, (0, 1, 2), (0, 1)), ongoing).problems == {}
    assert (
        check_health(snapshot_with_partition(0, (0, 1, 2), (0, 2)), ongoing).count(UNDER_REPLICATED)
        == 1
    )
