"""Tests of controller/topic_requests.py: what Kafka's recorded answers do not show.

Mistakes, and which of several counts, are in test_topic_answers.py.
"""

from random import Random

import pytest

from odradek.controller import topic_requests
from odradek.controller.assignment import Assignment
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_requests import (
    Known,
    TopicDefaults,
    planned_growth,
    planned_topic,
    refused_as_repeated,
    refused_at_sight,
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

KNOWN = Known(racks=dict.fromkeys((1, 2, 3)))
ID = topic_id("t")


def planned(entry, known=KNOWN, defaults=None):
    defaults = defaults or TopicDefaults()
    return planned_topic(entry, known, defaults, random=Random(0), topic_id=ID)


def grown(topic, *, racks=(1, 2, 3), **options):
    known = Known(racks=dict.fromkeys(racks))
    return planned_growth(growth_entry(**options), topic, known, version=4)


def topic(*assignments, **options):
    return TopicAssignment({n: Assignment(at) for n, at in enumerate(assignments)}, ID, **options)


# Creation


def test_the_broker_decides_what_a_request_leaves_open():
    plan = planned(topic_entry(), defaults=TopicDefaults(partitions=4, replication_factor=2))
    assert len(plan.topic.partitions) == 4
    assert plan.replication_factor == 2


def test_one_count_may_be_left_open():
    plan = planned(topic_entry(partitions=2), defaults=TopicDefaults(9, 3))
    assert (len(plan.topic.partitions), plan.replication_factor) == (2, 3)


def test_placement_is_drawn():
    entry = topic_entry(partitions=1, factor=1)
    defaults = TopicDefaults()
    leaders = {
        planned_topic(entry, KNOWN, defaults, random=Random(seed), topic_id=ID)
        .topic.partitions[0]
        .replicas
        for seed in range(50)
    }
    assert leaders == {(1,), (2,), (3,)}


def test_replicas_are_where_they_are_asked_for():
    plan = planned(topic_entry(replicas={1: [2, 9], 0: [1, 2]}))
    assert plan.topic == topic((1, 2), (2, 9))
    assert TopicAssignment.decode(plan.node) == plan.topic


def test_a_new_topic_is_set_on_top_of_the_server():
    defaults = TopicDefaults(server=(LogSettings(segment_bytes=5000),))
    plan = planned(topic_entry(config={"retention.ms": "7"}), defaults=defaults)
    assert EntityConfig.decode(plan.config_node).config == {"retention.ms": "7"}
    assert (plan.settings.retention_ms, plan.settings.segment_bytes) == (7, 5000)


@pytest.mark.parametrize("replicas", [{0: [1], -1: [1], 2: [1]}, {1: [1]}, {0: [1], 2: [1]}])
def test_partitions_are_numbered_from_0(replicas):
    with pytest.raises(InvalidReplicaAssignment, match="numbered"):
        planned(topic_entry(replicas=replicas))


@pytest.mark.parametrize("replicas", [{0: []}, {0: [-1]}, {0: [1, 1]}, {0: [1], 1: [2, 3]}])
def test_replicas_must_make_sense(replicas):
    with pytest.raises(InvalidReplicaAssignment):
        planned(topic_entry(replicas=replicas))


def test_a_null_is_no_setting_even_if_another_word_follows():
    entry = topic_entry()
    entry.configs = [
        entry.Config(name="retention.ms", value=None),
        entry.Config(name="retention.ms", value="1"),
    ]
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        planned(entry)


def test_of_two_words_on_a_setting_the_last_counts():
    entry = topic_entry()
    entry.configs = [entry.Config(name="retention.ms", value=text) for text in ("1", "2")]
    assert planned(entry).settings.retention_ms == 2


def test_a_topic_that_is_being_deleted_is_still_there():
    known = Known(KNOWN.racks, topics={"t"}, to_delete={"t"})
    with pytest.raises(TopicAlreadyExists, match="deleted"):
        planned(topic_entry(), known)
    with pytest.raises(InvalidPartitions):
        planned(topic_entry(partitions=0, factor=1), known)


def test_a_name_must_differ_from_others_in_metrics_too():
    known = Known(KNOWN.racks, by_metric_name={"a_b_c": "a.b_c"})
    with pytest.raises(InvalidTopic, match=r"a\.b_c"):
        planned(topic_entry("a_b.c"), known)
    with pytest.raises(TopicAlreadyExists):
        planned(topic_entry("a.b_c"), known)


def test_without_brokers_there_is_no_place():
    with pytest.raises(InvalidReplicationFactor):
        planned(topic_entry(partitions=1, factor=1), Known(racks={}))


#: What fits into a node with one replica for each, on brokers of one digit.
MOST = 84_240


def test_as_many_partitions_may_be_as_a_node_holds():
    assert len(planned(topic_entry(partitions=MOST, factor=1)).topic.partitions) == MOST


@pytest.mark.parametrize("count", [MOST + 20, 2**31 - 1])
def test_more_partitions_than_a_node_holds_are_not_even_placed(count, monkeypatch):
    monkeypatch.delattr(topic_requests, "placed_replicas")
    with pytest.raises(InvalidPartitions, match=str(count)):
        planned(topic_entry(partitions=count, factor=1))
    with pytest.raises(InvalidPartitions, match=str(count)):
        grown(topic((1,)), count=count)


def test_a_topic_must_fit_into_its_node():
    entry = topic_entry(replicas=dict.fromkeys(range(1000), range(300)))
    with pytest.raises(InvalidPartitions, match="too many"):
        planned(entry)


def test_a_configuration_must_fit_beside_its_topic():
    throttled = ",".join(f"{number}:1" for number in range(150_000))
    entry = topic_entry(config={"leader.replication.throttled.replicas": throttled})
    with pytest.raises(InvalidConfig, match="longer"):
        planned(entry)


def test_a_topic_is_named_once_in_a_request():
    refused = refused_at_sight(["a", "b", "a", "__cluster_metadata"])
    assert {name: type(error) for name, error in refused.items()} == {
        "a": InvalidRequest,
        "__cluster_metadata": InvalidRequest,
    }
    assert refused_as_repeated(["a", "b"]) == {}


# Growth


def test_leaders_of_new_partitions_go_on_around_the_brokers():
    whole = planned(topic_entry(partitions=9, factor=2)).topic.partitions
    some = TopicAssignment({number: whole[number] for number in range(5)}, ID)
    growth = grown(some, count=9)
    firsts = [replicas[0] for replicas in growth.added.values()]
    assert firsts == [whole[number].replicas[0] for number in range(5, 9)]


@pytest.mark.parametrize(
    ("leader", "racks", "first"), [(2, (1, 2, 3), 3), (2, (1, 3, 4), 4), (9, (1, 2, 3), 2)]
)
def test_growth_begins_after_the_first_leader_or_who_comes_next(leader, racks, first):
    growth = grown(topic((leader,)), count=2, racks=racks)
    assert growth.added == {1: (first,)}


def test_what_is_there_stays_as_it_is():
    before = topic((1, 2), (2, 3), extra={"future": 1})
    growth = grown(before, count=4, replicas=[[3, 1], [1, 2]])
    assert growth.added == {2: (3, 1), 3: (1, 2)}
    assert TopicAssignment.decode(growth.node) == topic(
        (1, 2), (2, 3), (3, 1), (1, 2), extra={"future": 1}
    )
    assert growth.version == 4


def test_a_topic_with_a_gap_does_not_grow():
    broken = TopicAssignment({0: Assignment((1,)), 2: Assignment((1,))}, ID)
    with pytest.raises(KafkaError, match="lacks"):
        grown(broken, count=3)


def test_a_topic_whose_partitions_have_no_replicas_does_not_grow():
    with pytest.raises(InvalidReplicationFactor):
        grown(topic(()), count=2)
