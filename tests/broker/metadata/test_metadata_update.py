"""How UpdateMetadata requests change a metadata snapshot."""

from hypothesis import given
from hypothesis.strategies import dictionaries, integers, lists, sampled_from, sets, tuples

from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot, Node
from odradek.broker.metadata.metadata_update import FULL_UPDATE, apply_update
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import TopicPartition
from tests.support.calls import as_sent
from tests.support.metadata_updates import (
    GOING,
    INSIDE,
    OUTSIDE,
    LiveBroker,
    live_broker,
    state,
    topic_id,
    update,
)

#: The changes of a topic: the leader of each partition.
CHANGES = dictionaries(
    sampled_from("tuvw"),
    dictionaries(integers(0, 3), sampled_from([GOING, -1, 1, 2]), max_size=4),
    max_size=4,
)


def snapshot_of(*updates):
    snapshot = MetadataSnapshot()
    for update_request in updates:
        snapshot = apply_update(snapshot, update_request).snapshot
    return snapshot


def leaders(snapshot):
    return {
        name: {number: partition.leader for number, partition in topic.partitions.items()}
        for name, topic in snapshot.topics.items()
    }


# Topics


def test_partitions_not_in_the_update_are_kept():
    snapshot = snapshot_of(
        update({"t": [state(0), state(1)], "u": [state(0)]}), update({"t": [state(1, leader=2)]})
    )
    assert leaders(snapshot) == {"t": {0: 1, 1: 2}, "u": {0: 1}}


def test_unchanged_topic_is_the_same_object():
    before = snapshot_of(update({"t": [state()], "u": [state()]}))
    after = apply_update(before, update({"t": [state(leader=2)]})).snapshot
    assert after.topics["u"] is before.topics["u"]
    assert after.topics["t"] is not before.topics["t"]


def test_previous_snapshot_is_not_modified():
    before = snapshot_of(update({"t": [state()]}))
    apply_update(before, update({"t": [state(leader=GOING)], "u": [state()]}))
    assert leaders(before) == {"t": {0: 1}}
    assert before.topic_names == {topic_id("t"): "t"}


def test_update_without_topics_keeps_all_topics():
    before = snapshot_of(update({"t": [state()]}))
    result = apply_update(before, update(controller_id=2))
    assert result.snapshot.topics is before.topics
    assert (result.snapshot.controller_id, result.changed_topics) == (2, frozenset())


def test_partitions_are_sorted_by_number():
    snapshot = snapshot_of(update({"t": [state(2), state(0)]}), update({"t": [state(1)]}))
    assert [*snapshot.topics["t"].partitions] == [0, 1, 2]


def test_topic_is_removed_with_its_last_partition():
    first = update({"t": [state(0), state(1)]})
    one_left = snapshot_of(first, update({"t": [state(0, leader=GOING)]}))
    assert leaders(one_left) == {"t": {1: 1}}
    result = apply_update(one_left, update({"t": [state(1, leader=GOING)]}))
    assert (result.snapshot.topics, result.snapshot.topic_names) == ({}, {})
    assert result.deleted_partitions == (TopicPartition("t", 1),)
    assert result.changed_topics == {"t"}


def test_deletion_of_an_unknown_partition_is_reported():
    result = apply_update(MetadataSnapshot(), update({"t": [state(3, leader=GOING)]}))
    assert result.deleted_partitions == (TopicPartition("t", 3),)
    assert result.snapshot.topics == {}


def test_partition_deleted_and_recreated_in_one_update_is_not_reported():
    request = update({"t": [state(leader=GOING)]})
    request.topic_states += update({"t": [state(leader=2)]}).topic_states
    result = apply_update(snapshot_of(update({"t": [state()]})), request)
    assert leaders(result.snapshot) == {"t": {0: 2}}
    assert result.deleted_partitions == ()


def test_recreated_topic_has_its_new_id_only():
    recreation = update({"t": [state()]})
    recreation.topic_states[0].topic_id = topic_id("another")
    snapshot = snapshot_of(update({"t": [state()]}), recreation)
    assert snapshot.topic_names == {topic_id("another"): "t"}
    assert snapshot.topics["t"].id == topic_id("another")


def test_topics_without_ids_have_no_id_mapping():
    snapshot = snapshot_of(update({"t": [state()]}, has_ids=False))
    assert snapshot.topic_names == {}


def test_oldest_versions_have_ungrouped_partitions_and_keep_topic_ids():
    request = update()
    request.ungrouped_partition_states = [
        state(0, topic="t", leader=2),
        state(1, topic="t"),
        state(0, topic="u"),
    ]
    snapshot = snapshot_of(update({"t": [state()]}), request)
    assert leaders(snapshot) == {"t": {0: 2, 1: 1}, "u": {0: 1}}
    assert snapshot.topic_names == {topic_id("t"): "t"}


def test_full_update_deletes_partitions_that_it_does_not_contain():
    before = snapshot_of(update({"t": [state(0), state(1)], "u": [state()]}))
    result = apply_update(before, update({"t": [state(1)]}, type=FULL_UPDATE))
    assert leaders(result.snapshot) == {"t": {1: 1}}
    assert set(result.deleted_partitions) == {TopicPartition("t", 0), TopicPartition("u", 0)}
    assert result.snapshot.topic_names == {topic_id("t"): "t"}


@given(lists(tuples(CHANGES, sampled_from([0, FULL_UPDATE]))))
def test_snapshot_is_the_result_of_all_updates_in_order(history):
    snapshot = MetadataSnapshot()
    model = {}
    for changes, kind in history:
        before = {TopicPartition(*key) for key in model}
        request = update(
            {
                name: [state(number, leader=leader) for number, leader in partitions.items()]
                for name, partitions in changes.items()
            },
            type=kind,
        )
        result = apply_update(snapshot, request)
        snapshot = result.snapshot
        if kind == FULL_UPDATE:
            model.clear()
        named = {
            (name, number): leader
            for name, partitions in changes.items()
            for number, leader in partitions.items()
        }
        model |= named
        model = {key: leader for key, leader in model.items() if leader != GOING}
        assert leaders(snapshot) == {
            name: dict(sorted((number, model[t, number]) for t, number in model if t == name))
            for name in {name for name, _ in model}
        }
        assert snapshot.topic_names == {topic_id(name): name for name in snapshot.topics}
        going = {TopicPartition(*key) for key, leader in named.items() if leader == GOING}
        assert set(result.deleted_partitions) == (before | going) - {
            TopicPartition(*key) for key in model
        }


# Brokers


def test_brokers_are_those_of_the_last_update():
    snapshot = snapshot_of(
        update(brokers=[live_broker(1), live_broker(2)]),
        update(brokers=[live_broker(3, rack="r"), live_broker(2)]),
    )
    assert snapshot.brokers.ids == {2, 3}
    assert [*snapshot.brokers.nodes_for_listener(INSIDE).values()] == [
        Node(2, "inside2", 9092, None),
        Node(3, "inside3", 9092, "r"),
    ]


def test_listener_has_the_brokers_with_that_listener():
    snapshot = snapshot_of(
        update(brokers=[live_broker(1, listeners=[INSIDE, OUTSIDE]), live_broker(2)])
    )
    assert [*snapshot.brokers.nodes_for_listener(INSIDE)] == [1, 2]
    assert [*snapshot.brokers.nodes_for_listener(OUTSIDE)] == [1]
    assert [*snapshot.brokers.nodes_for_listener("ELSEWHERE")] == []


def test_unchanged_brokers_are_the_same_object():
    before = snapshot_of(update())
    assert apply_update(before, update({"t": [state()]})).snapshot.brokers is before.brokers


def test_listener_without_name_is_called_like_its_protocol():
    request = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        live_brokers=[
            LiveBroker(
                id=1,
                endpoints=[LiveBroker.Endpoint(port=1, host="h", listener="", security_protocol=3)],
            )
        ],
    )
    snapshot = snapshot_of(as_sent(request, version=2))
    assert [*snapshot.brokers.nodes_for_listener("SASL_SSL").values()] == [Node(1, "h", 1, None)]


def test_first_version_has_one_address():
    broker = LiveBroker(id=1, v0_host="h", v0_port=7)
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[broker])
    snapshot = snapshot_of(as_sent(request, version=0))
    assert [*snapshot.brokers.nodes_for_listener("PLAINTEXT").values()] == [Node(1, "h", 7, None)]


@given(sets(integers(0, 5)))
def test_brokers_are_sorted_by_id(ids):
    snapshot = snapshot_of(update(brokers=[live_broker(number) for number in ids]))
    assert [*snapshot.brokers.nodes_for_listener(INSIDE)] == sorted(ids)
