"""Tests of broker/groups/consumer/topics.py."""

from odradek.broker.groups.consumer.topics import TopicsSnapshot
from tests.support.metadata_updates import GOING, cluster, live_broker, state, topic_id, update


def topics_after(*updates):
    return TopicsSnapshot(cluster(*updates).snapshot)


def test_topics_are_found_by_name_and_id():
    topics = topics_after(update({"a": [state(0), state(1)]}))
    assert topics.topic_id("a") == topic_id("a")
    assert topics.topic_name(topic_id("a")) == "a"
    assert topics.partition_counts(frozenset({"a", "b"})) == {topic_id("a"): 2}
    assert topics.topic_id("b") is None


def test_partition_that_never_had_a_leader_counts_if_a_later_one_has():
    """Metadata does not name it. Without it, the last partition would not be assigned."""
    topics = topics_after(update({"a": [state(1), state(2)]}))
    assert topics.partition_counts(frozenset({"a"})) == {topic_id("a"): 3}


def test_topics_without_an_id_are_ignored():
    topics = topics_after(update({"a": [state(0)]}, has_ids=False))
    assert topics.topic_id("a") is None
    assert topics.partition_counts(frozenset({"a"})) == {}
    assert topics.compute_metadata_hash(frozenset({"a"})) == 0


def test_same_snapshot_gives_the_same_topics():
    cache = cluster(update({"a": [state(0)]}))
    topics = TopicsSnapshot(cache.snapshot)
    assert topics.with_snapshot(cache.snapshot) is topics
    cache.update(update({"a": [state(0), state(1)]}))
    assert topics.with_snapshot(cache.snapshot) is not topics


def test_regex_is_matched_again_when_a_topic_is_created_or_deleted():
    cache = cluster(update({"a1": [state(0)]}))
    before = TopicsSnapshot(cache.snapshot)
    assert before.matching_topics("a.") == {"a1"}
    cache.update(update({"a2": [state(0)]}))
    after = before.with_snapshot(cache.snapshot)
    assert after.matching_topics("a.") == {"a1", "a2"}
    cache.update(update({"a1": [state(0, leader=GOING)]}))
    assert after.with_snapshot(cache.snapshot).matching_topics("a.") == {"a2"}


def test_subscription_cache_is_bounded(monkeypatch):
    monkeypatch.setattr("odradek.broker.groups.consumer.topics.MAX_CACHED_SUBSCRIPTIONS", 3)
    topics = topics_after(update({"a": [state(0)]}))
    for number in range(10):
        names = frozenset({"a", str(number)})
        assert topics.partition_counts(names) == {topic_id("a"): 1}
        assert topics.compute_metadata_hash(names)
    assert len(topics._partition_counts) <= 3
    assert len(topics._hashes) <= 3


def test_hash_depends_on_partitions_and_racks_but_not_on_leaders():
    base = topics_after(update({"a": [state(0)]})).compute_metadata_hash(frozenset({"a"}))
    grown = topics_after(update({"a": [state(0), state(1)]})).compute_metadata_hash(
        frozenset({"a"})
    )
    with_other_leader = topics_after(update({"a": [state(0, leader=2)]})).compute_metadata_hash(
        frozenset({"a"})
    )
    racks = [live_broker(1, rack="r1"), live_broker(2)]
    with_rack = topics_after(update({"a": [state(0)]}, brokers=racks)).compute_metadata_hash(
        frozenset({"a"})
    )
    assert len({base, grown, with_rack}) == 3
    assert with_other_leader == base


def test_hash_does_not_change_while_a_broker_restarts():
    both = [live_broker(1, rack="r1"), live_broker(2, rack="r2")]
    partitions = {"a": [state(0, replicas=[1, 2])]}
    cache = cluster(update(partitions, brokers=both))
    topics = TopicsSnapshot(cache.snapshot)
    before = topics.compute_metadata_hash(frozenset({"a"}))
    cache.update(update(partitions, brokers=both[:1]))
    topics = topics.with_snapshot(cache.snapshot)
    assert topics.compute_metadata_hash(frozenset({"a"})) == before
    cache.update(update(partitions, brokers=[both[0], live_broker(2, rack="moved")]))
    moved = topics.with_snapshot(cache.snapshot).compute_metadata_hash(frozenset({"a"}))
    cache.update(update(partitions, brokers=[both[0], live_broker(2)]))
    assert (
        len(
            {
                before,
                moved,
                topics.with_snapshot(cache.snapshot).compute_metadata_hash(frozenset({"a"})),
            }
        )
        == 3
    )
