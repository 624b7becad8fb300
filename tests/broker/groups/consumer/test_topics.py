"""Tests of broker/groups/consumer/topics.py."""

from odradek.broker.groups.consumer.topics import Topics
from tests.support.metadata_updates import GOING, cluster, live_broker, state, topic_id, update


def topics_after(*updates):
    return Topics(cluster(*updates).picture)


def test_topics_are_found_by_name_and_id():
    topics = topics_after(update({"a": [state(0), state(1)]}))
    assert topics.id_of("a") == topic_id("a")
    assert topics.name_of(topic_id("a")) == "a"
    assert topics.partition_counts(frozenset({"a", "b"})) == {topic_id("a"): 2}
    assert topics.id_of("b") is None


def test_a_partition_that_never_had_a_leader_counts_if_a_later_one_has():
    """Nobody is told of it, and nobody would be assigned the last one else."""
    topics = topics_after(update({"a": [state(1), state(2)]}))
    assert topics.partition_counts(frozenset({"a"})) == {topic_id("a"): 3}


def test_topics_without_an_id_are_not_seen():
    topics = topics_after(update({"a": [state(0)]}, has_ids=False))
    assert topics.id_of("a") is None
    assert topics.partition_counts(frozenset({"a"})) == {}
    assert topics.hash_of(frozenset({"a"})) == 0


def test_the_same_picture_gives_the_same_topics():
    cache = cluster(update({"a": [state(0)]}))
    topics = Topics(cache.picture)
    assert topics.after(cache.picture) is topics
    cache.update(update({"a": [state(0), state(1)]}))
    assert topics.after(cache.picture) is not topics


def test_an_expression_is_matched_again_when_a_name_comes_or_goes():
    cache = cluster(update({"a1": [state(0)]}))
    before = Topics(cache.picture)
    assert before.matching("a.") == {"a1"}
    cache.update(update({"a2": [state(0)]}))
    after = before.after(cache.picture)
    assert after.matching("a.") == {"a1", "a2"}
    cache.update(update({"a1": [state(0, leader=GOING)]}))
    assert after.after(cache.picture).matching("a.") == {"a2"}


def test_what_is_known_of_subscriptions_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr("odradek.broker.groups.consumer.topics.SUBSCRIPTIONS_KEPT", 3)
    topics = topics_after(update({"a": [state(0)]}))
    for number in range(10):
        names = frozenset({"a", str(number)})
        assert topics.partition_counts(names) == {topic_id("a"): 1}
        assert topics.hash_of(names)
    assert len(topics._counts) <= 3
    assert len(topics._hashes) <= 3


def test_the_hash_changes_with_partitions_and_racks_and_not_with_leaders():
    base = topics_after(update({"a": [state(0)]})).hash_of(frozenset({"a"}))
    grown = topics_after(update({"a": [state(0), state(1)]})).hash_of(frozenset({"a"}))
    led_by_another = topics_after(update({"a": [state(0, leader=2)]})).hash_of(frozenset({"a"}))
    racks = [live_broker(1, rack="r1"), live_broker(2)]
    racked = topics_after(update({"a": [state(0)]}, brokers=racks)).hash_of(frozenset({"a"}))
    assert len({base, grown, racked}) == 3
    assert led_by_another == base


def test_the_hash_does_not_change_while_a_broker_restarts():
    both = [live_broker(1, rack="r1"), live_broker(2, rack="r2")]
    partitions = {"a": [state(0, replicas=[1, 2])]}
    cache = cluster(update(partitions, brokers=both))
    topics = Topics(cache.picture)
    before = topics.hash_of(frozenset({"a"}))
    cache.update(update(partitions, brokers=both[:1]))
    topics = topics.after(cache.picture)
    assert topics.hash_of(frozenset({"a"})) == before
    cache.update(update(partitions, brokers=[both[0], live_broker(2, rack="moved")]))
    moved = topics.after(cache.picture).hash_of(frozenset({"a"}))
    cache.update(update(partitions, brokers=[both[0], live_broker(2)]))
    assert len({before, moved, topics.after(cache.picture).hash_of(frozenset({"a"}))}) == 3
