"""Tests of broker/metadata/picture_update.py."""

from hypothesis import given
from hypothesis.strategies import dictionaries, integers, lists, sampled_from, sets, tuples

from odradek.broker.metadata.picture import Node, Picture
from odradek.broker.metadata.picture_update import FULL, updated
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

#: What is said of a topic: the leader of each partition.
CHANGES = dictionaries(
    sampled_from("tuvw"),
    dictionaries(integers(0, 3), sampled_from([GOING, -1, 1, 2]), max_size=4),
    max_size=4,
)


def picture(*updates):
    known = Picture()
    for each in updates:
        known = updated(known, each).picture
    return known


def leaders(known):
    return {
        name: {number: each.leader for number, each in topic.partitions.items()}
        for name, topic in known.topics.items()
    }


# Topics


def test_what_is_not_told_of_stays():
    known = picture(
        update({"t": [state(0), state(1)], "u": [state(0)]}), update({"t": [state(1, leader=2)]})
    )
    assert leaders(known) == {"t": {0: 1, 1: 2}, "u": {0: 1}}


def test_a_topic_that_has_not_changed_is_the_same_object():
    before = picture(update({"t": [state()], "u": [state()]}))
    after = updated(before, update({"t": [state(leader=2)]})).picture
    assert after.topics["u"] is before.topics["u"]
    assert after.topics["t"] is not before.topics["t"]


def test_the_picture_before_is_as_it_was():
    before = picture(update({"t": [state()]}))
    updated(before, update({"t": [state(leader=GOING)], "u": [state()]}))
    assert leaders(before) == {"t": {0: 1}}
    assert before.names == {topic_id("t"): "t"}


def test_an_update_without_topics_keeps_them_all():
    before = picture(update({"t": [state()]}))
    told = updated(before, update(controller_id=2))
    assert told.picture.topics is before.topics
    assert (told.picture.controller_id, told.topics) == (2, frozenset())


def test_partitions_are_in_the_order_of_their_numbers():
    known = picture(update({"t": [state(2), state(0)]}), update({"t": [state(1)]}))
    assert [*known.topics["t"].partitions] == [0, 1, 2]


def test_a_partition_goes_and_its_topic_with_the_last():
    first = update({"t": [state(0), state(1)]})
    one_left = picture(first, update({"t": [state(0, leader=GOING)]}))
    assert leaders(one_left) == {"t": {1: 1}}
    told = updated(one_left, update({"t": [state(1, leader=GOING)]}))
    assert (told.picture.topics, told.picture.names) == ({}, {})
    assert told.deleted == (TopicPartition("t", 1),)
    assert told.topics == {"t"}


def test_the_end_of_an_unknown_partition_is_told_too():
    told = updated(Picture(), update({"t": [state(3, leader=GOING)]}))
    assert told.deleted == (TopicPartition("t", 3),)
    assert told.picture.topics == {}


def test_what_goes_and_comes_back_in_one_update_was_never_gone():
    request = update({"t": [state(leader=GOING)]})
    request.topic_states += update({"t": [state(leader=2)]}).topic_states
    told = updated(picture(update({"t": [state()]})), request)
    assert leaders(told.picture) == {"t": {0: 2}}
    assert told.deleted == ()


def test_a_topic_made_again_has_its_new_id_only():
    again = update({"t": [state()]})
    again.topic_states[0].topic_id = topic_id("another")
    known = picture(update({"t": [state()]}), again)
    assert known.names == {topic_id("another"): "t"}
    assert known.topics["t"].id == topic_id("another")


def test_topics_without_ids_have_none():
    known = picture(update({"t": [state()]}, has_ids=False))
    assert known.names == {}


def test_the_oldest_versions_list_partitions_without_their_topics_and_leave_ids_alone():
    request = update()
    request.ungrouped_partition_states = [
        state(0, topic="t", leader=2),
        state(1, topic="t"),
        state(0, topic="u"),
    ]
    known = picture(update({"t": [state()]}), request)
    assert leaders(known) == {"t": {0: 2, 1: 1}, "u": {0: 1}}
    assert known.names == {topic_id("t"): "t"}


def test_what_a_full_update_does_not_name_is_gone():
    before = picture(update({"t": [state(0), state(1)], "u": [state()]}))
    told = updated(before, update({"t": [state(1)]}, type=FULL))
    assert leaders(told.picture) == {"t": {1: 1}}
    assert set(told.deleted) == {TopicPartition("t", 0), TopicPartition("u", 0)}
    assert told.picture.names == {topic_id("t"): "t"}


@given(lists(tuples(CHANGES, sampled_from([0, FULL]))))
def test_a_picture_is_all_updates_one_after_the_other(history):
    known = Picture()
    model = {}
    for changes, kind in history:
        before = {TopicPartition(*each) for each in model}
        request = update(
            {
                name: [state(number, leader=leader) for number, leader in partitions.items()]
                for name, partitions in changes.items()
            },
            type=kind,
        )
        told = updated(known, request)
        known = told.picture
        if kind == FULL:
            model.clear()
        named = {
            (name, number): leader
            for name, partitions in changes.items()
            for number, leader in partitions.items()
        }
        model |= named
        model = {each: leader for each, leader in model.items() if leader != GOING}
        assert leaders(known) == {
            name: dict(sorted((number, model[t, number]) for t, number in model if t == name))
            for name in {name for name, _ in model}
        }
        assert known.names == {topic_id(name): name for name in known.topics}
        going = {TopicPartition(*each) for each, leader in named.items() if leader == GOING}
        assert set(told.deleted) == (before | going) - {TopicPartition(*each) for each in model}


# Brokers


def test_brokers_are_those_of_the_last_update():
    known = picture(
        update(brokers=[live_broker(1), live_broker(2)]),
        update(brokers=[live_broker(3, rack="r"), live_broker(2)]),
    )
    assert known.brokers.ids == {2, 3}
    assert [*known.brokers.at(INSIDE).values()] == [
        Node(2, "inside2", 9092, None),
        Node(3, "inside3", 9092, "r"),
    ]


def test_each_listener_has_the_brokers_that_have_it():
    known = picture(update(brokers=[live_broker(1, listeners=[INSIDE, OUTSIDE]), live_broker(2)]))
    assert [*known.brokers.at(INSIDE)] == [1, 2]
    assert [*known.brokers.at(OUTSIDE)] == [1]
    assert [*known.brokers.at("ELSEWHERE")] == []


def test_brokers_that_have_not_changed_are_the_same_object():
    before = picture(update())
    assert updated(before, update({"t": [state()]})).picture.brokers is before.brokers


def test_listeners_are_called_as_their_protocols_where_they_have_no_names():
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
    known = picture(as_sent(request, version=2))
    assert [*known.brokers.at("SASL_SSL").values()] == [Node(1, "h", 1, None)]


def test_the_first_version_has_one_address():
    broker = LiveBroker(id=1, v0_host="h", v0_port=7)
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[broker])
    known = picture(as_sent(request, version=0))
    assert [*known.brokers.at("PLAINTEXT").values()] == [Node(1, "h", 7, None)]


@given(sets(integers(0, 5)))
def test_brokers_are_in_the_order_of_their_ids(ids):
    known = picture(update(brokers=[live_broker(number) for number in ids]))
    assert [*known.brokers.at(INSIDE)] == sorted(ids)
