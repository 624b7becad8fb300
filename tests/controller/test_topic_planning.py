"""Tests of controller/topic_planning.py beyond Kafka's recorded responses.

test_topic_request_compatibility.py covers errors and their precedence.
"""

from random import Random

import pytest

from odradek.controller import topic_planning
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_planning import (
    ClusterSnapshot,
    TopicDefaults,
    duplicate_name_errors,
    name_errors,
    plan_new_partitions,
    plan_topic,
)
from odradek.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
)
from odradek.storage.log_settings import LogSettings
from tests.support.controller_scene import topic_id
from tests.support.topic_entries import growth_entry, topic_entry

KNOWN = ClusterSnapshot(racks=dict.fromkeys((1, 2, 3)))
ID = topic_id("t")


def plan(entry, known=KNOWN, defaults=None):
    defaults = defaults or TopicDefaults()
    return plan_topic(entry, known, defaults, random=Random(0), topic_id=ID)


def plan_growth(topic, *, racks=(1, 2, 3), **options):
    known = ClusterSnapshot(racks=dict.fromkeys(racks))
    return plan_new_partitions(growth_entry(**options), topic, known, version=4)


def topic(*assignments, **options):
    return TopicAssignment(
        {n: ReplicaAssignment(replicas) for n, replicas in enumerate(assignments)}, ID, **options
    )


# Creation


def test_missing_counts_use_the_broker_defaults():
    planned = plan(topic_entry(), defaults=TopicDefaults(num_partitions=4, replication_factor=2))
    assert len(planned.assignment.partitions) == 4
    assert planned.replication_factor == 2


def test_one_missing_count_uses_its_default():
    planned = plan(topic_entry(partitions=2), defaults=TopicDefaults(9, 3))
    assert (len(planned.assignment.partitions), planned.replication_factor) == (2, 3)


def test_placement_starts_at_a_random_broker():
    entry = topic_entry(partitions=1, factor=1)
    defaults = TopicDefaults()
    leaders = {
        plan_topic(entry, KNOWN, defaults, random=Random(seed), topic_id=ID)
        .assignment.partitions[0]
        .replicas
        for seed in range(50)
    }
    assert leaders == {(1,), (2,), (3,)}


def test_explicit_assignment_is_used():
    planned = plan(topic_entry(replicas={1: [2, 9], 0: [1, 2]}))
    assert planned.assignment == topic((1, 2), (2, 9))
    assert TopicAssignment.decode(planned.encoded_topic) == planned.assignment


def test_topic_config_overrides_the_server_settings():
    defaults = TopicDefaults(server_settings=(LogSettings(segment_bytes=5000),))
    planned = plan(topic_entry(config={"retention.ms": "7"}), defaults=defaults)
    assert EntityConfig.decode(planned.encoded_config).config == {"retention.ms": "7"}
    assert (planned.settings.retention_ms, planned.settings.segment_bytes) == (7, 5000)


@pytest.mark.parametrize("replicas", [{0: [1], -1: [1], 2: [1]}, {1: [1]}, {0: [1], 2: [1]}])
def test_assignment_with_non_consecutive_partitions_is_rejected(replicas):
    with pytest.raises(InvalidReplicaAssignment, match="numbered"):
        plan(topic_entry(replicas=replicas))


@pytest.mark.parametrize("replicas", [{0: []}, {0: [-1]}, {0: [1, 1]}, {0: [1], 1: [2, 3]}])
def test_assignment_with_invalid_replicas_is_rejected(replicas):
    with pytest.raises(InvalidReplicaAssignment):
        plan(topic_entry(replicas=replicas))


def test_null_config_value_is_rejected_even_before_another_value():
    entry = topic_entry()
    entry.configs = [
        entry.Config(name="retention.ms", value=None),
        entry.Config(name="retention.ms", value="1"),
    ]
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        plan(entry)


def test_last_of_duplicate_config_values_wins():
    entry = topic_entry()
    entry.configs = [entry.Config(name="retention.ms", value=text) for text in ("1", "2")]
    assert plan(entry).settings.retention_ms == 2


def test_topic_being_deleted_still_exists():
    known = ClusterSnapshot(KNOWN.racks, topics={"t"}, topics_to_be_deleted={"t"})
    with pytest.raises(TopicAlreadyExists, match="deleted"):
        plan(topic_entry(), known)
    with pytest.raises(InvalidPartitions):
        plan(topic_entry(partitions=0, factor=1), known)


def test_topic_name_that_collides_in_metrics_is_rejected():
    known = ClusterSnapshot(KNOWN.racks, topics_by_metric_name={"a_b_c": "a.b_c"})
    with pytest.raises(InvalidTopic, match=r"a\.b_c"):
        plan(topic_entry("a_b.c"), known)
    with pytest.raises(TopicAlreadyExists):
        plan(topic_entry("a.b_c"), known)


def test_topic_without_live_brokers_is_rejected():
    with pytest.raises(InvalidReplicationFactor):
        plan(topic_entry(partitions=1, factor=1), ClusterSnapshot(racks={}))


#: The most partitions with one replica on a single-digit broker that fit into a znode.
PARTITIONS_MAX = 84_240


def test_partition_count_up_to_the_znode_limit_is_accepted():
    assert (
        len(plan(topic_entry(partitions=PARTITIONS_MAX, factor=1)).assignment.partitions)
        == PARTITIONS_MAX
    )


@pytest.mark.parametrize("count", [PARTITIONS_MAX + 20, 2**31 - 1])
def test_partition_count_above_the_znode_limit_is_rejected_before_placement(count, monkeypatch):
    monkeypatch.delattr(topic_planning, "assign_replicas_to_brokers")
    with pytest.raises(InvalidPartitions, match=str(count)):
        plan(topic_entry(partitions=count, factor=1))
    with pytest.raises(InvalidPartitions, match=str(count)):
        plan_growth(topic((1,)), count=count)


def test_topic_larger_than_a_znode_is_rejected():
    entry = topic_entry(replicas=dict.fromkeys(range(1000), range(300)))
    with pytest.raises(InvalidPartitions, match="too many"):
        plan(entry)


def test_config_larger_than_a_znode_is_rejected():
    throttled = ",".join(f"{number}:1" for number in range(150_000))
    entry = topic_entry(config={"leader.replication.throttled.replicas": throttled})
    with pytest.raises(InvalidConfig, match="exceeds the maximum size"):
        plan(entry)


def test_duplicate_and_reserved_topic_names_are_rejected():
    errors = name_errors(["a", "b", "a", "__cluster_metadata"])
    assert {name: type(error) for name, error in errors.items()} == {
        "a": InvalidRequest,
        "__cluster_metadata": InvalidRequest,
    }
    assert duplicate_name_errors(["a", "b"]) == {}


# Growth


def test_leaders_of_new_partitions_continue_the_round_robin():
    all_partitions = plan(topic_entry(partitions=9, factor=2)).assignment.partitions
    existing = TopicAssignment({number: all_partitions[number] for number in range(5)}, ID)
    growth = plan_growth(existing, count=9)
    leaders = [replicas[0] for replicas in growth.added_replicas.values()]
    assert leaders == [all_partitions[number].replicas[0] for number in range(5, 9)]


@pytest.mark.parametrize(
    ("leader", "racks", "first"), [(2, (1, 2, 3), 3), (2, (1, 3, 4), 4), (9, (1, 2, 3), 2)]
)
def test_new_partitions_start_after_the_first_leader_or_the_next_broker(leader, racks, first):
    growth = plan_growth(topic((leader,)), count=2, racks=racks)
    assert growth.added_replicas == {1: (first,)}


def test_new_partitions_keep_the_existing_assignment():
    before = topic((1, 2), (2, 3), extra={"future": 1})
    growth = plan_growth(before, count=4, replicas=[[3, 1], [1, 2]])
    assert growth.added_replicas == {2: (3, 1), 3: (1, 2)}
    assert TopicAssignment.decode(growth.encoded_topic) == topic(
        (1, 2), (2, 3), (3, 1), (1, 2), extra={"future": 1}
    )
    assert growth.version == 4


def test_partitions_of_a_topic_with_a_gap_are_not_increased():
    broken = TopicAssignment({0: ReplicaAssignment((1,)), 2: ReplicaAssignment((1,))}, ID)
    with pytest.raises(KafkaError, match="lacks"):
        plan_growth(broken, count=3)


def test_partitions_of_a_topic_without_replicas_are_not_increased():
    with pytest.raises(InvalidReplicationFactor):
        plan_growth(topic(()), count=2)
