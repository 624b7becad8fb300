"""The topic and partition state znodes in all versions that Kafka has written."""

from dataclasses import replace

import pytest

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import Uuid

TOPIC_ID = Uuid(bytes([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]))
ID = b'"topic_id":"AAAAAAAAAAEAAAAAAAAAAg"'

TOPICS = [
    (
        TopicAssignment({0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}, TOPIC_ID),
        b'{"partitions":{"0":[1,2],"1":[2,1]},' + ID + b',"adding_replicas":{},'
        b'"removing_replicas":{},"version":3}',
    ),
    (
        TopicAssignment(
            {0: ReplicaAssignment((3, 1, 2), (3,), (1,)), 1: ReplicaAssignment((1,))}, TOPIC_ID
        ),
        b'{"partitions":{"0":[3,1,2],"1":[1]},' + ID + b',"adding_replicas":{"0":[3]},'
        b'"removing_replicas":{"0":[1]},"version":3}',
    ),
    (
        TopicAssignment({0: ReplicaAssignment((1,))}),
        b'{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}',
    ),
    (
        TopicAssignment({}, TOPIC_ID),
        b'{"partitions":{},' + ID + b',"adding_replicas":{},"removing_replicas":{},"version":3}',
    ),
]


@pytest.mark.parametrize(("topic", "value"), TOPICS)
def test_topic_is_encoded_as_in_kafka(topic, value):
    assert topic.encode() == value
    assert TopicAssignment.decode(value) == topic


def test_twelve_partitions_are_encoded_in_the_order_of_kafkas_map():
    value = TopicAssignment({number: ReplicaAssignment((1,)) for number in range(12)}).encode()
    assert value.startswith(b'{"partitions":{"11":[1],"0":[1],"1":[1]')


@pytest.mark.parametrize(
    ("value", "topic"),
    [
        (
            b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}',
            TopicAssignment({0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2,))}),
        ),
        (
            b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},'
            b'"removing_replicas":{}}',
            TopicAssignment({0: ReplicaAssignment((1, 2), adding_replicas=(2,))}),
        ),
        (b'{"version":1}', TopicAssignment({})),
    ],
)
def test_older_versions_of_a_topic_are_decoded(value, topic):
    assert TopicAssignment.decode(value) == topic


def test_adding_replicas_of_an_unknown_partition_are_ignored():
    value = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"9":[2]}}'
    assert TopicAssignment.decode(value) == TopicAssignment({0: ReplicaAssignment((1,))})


def test_unknown_topic_fields_survive_a_change():
    topic = TopicAssignment.decode(TOPICS[2][1][:-1] + b',"owner":{"name":"a"}}')
    expanded = replace(topic, partitions={**topic.partitions, 1: ReplicaAssignment((2,))})
    assert expanded.encode() == (
        b'{"partitions":{"0":[1],"1":[2]},"adding_replicas":{},"removing_replicas":{},'
        b'"version":3,"owner":{"name":"a"}}'
    )


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b'{"partitions":[]}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"-1":[1]}}',
        b'{"partitions":{"00":[1]}}',
        b'{"partitions":{"2147483648":[1]}}',
        b'{"partitions":{"0":1}}',
        b'{"partitions":{"0":["1"]}}',
        b'{"partitions":{"0":[1]},"adding_replicas":[]}',
        b'{"partitions":{"0":[1]},"removing_replicas":{"0":null}}',
        b'{"partitions":{},"topic_id":1}',
        b'{"partitions":{},"topic_id":""}',
        b'{"partitions":{},"topic_id":"AAAAAAAAAAEAAAAAAAAAA"}',
        b'{"partitions":{},"topic_id":"AAAAAAAAAAEAAAAAAAAAAh"}',
        b'{"partitions":{},"topic_id":"AAAAAAAAAAEAAAAAAAAA!g"}',
        '{"partitions":{},"topic_id":"AAAAAAAAAAEAAAAAAAAAAé"}'.encode(),
    ],
)
def test_malformed_topic_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/brokers/topics/t: "):
        TopicAssignment.decode(value, "/brokers/topics/t")


STATES = [
    (
        LeaderAndIsr(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=3),
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}',
    ),
    (
        LeaderAndIsr(leader=1, leader_epoch=4, isr=(1,), controller_epoch=3, is_recovering=True),
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":4,"isr":[1]}',
    ),
    (
        LeaderAndIsr(leader=-1, leader_epoch=0, isr=(), controller_epoch=1),
        b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}',
    ),
]


@pytest.mark.parametrize(("state", "value"), STATES)
def test_partition_state_is_encoded_as_in_kafka(state, value):
    assert state.encode() == value
    assert LeaderAndIsr.decode(value) == state


def test_explicit_recovered_state_is_decoded():
    value = STATES[0][1][:-1] + b',"leader_recovery_state":0}'
    assert LeaderAndIsr.decode(value) == STATES[0][0]


def test_unknown_partition_state_fields_survive_a_change():
    state = LeaderAndIsr.decode(STATES[0][1][:-1] + b',"witness":7}')
    assert replace(state, isr=(1,)).encode() == (
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1],"witness":7}'
    )


@pytest.mark.parametrize(
    "missing", [b'"controller_epoch":3,', b'"leader":1,', b'"leader_epoch":4,']
)
def test_partition_state_without_a_required_number_is_rejected(missing):
    with pytest.raises(CorruptPayload, match=missing.split(b'"')[1].decode()):
        LeaderAndIsr.decode(STATES[0][1].replace(missing, b""))


@pytest.mark.parametrize("isr", [b"null", b"1", b'"1"', b"[1.0]", b"{}"])
def test_partition_state_without_an_isr_is_rejected(isr):
    with pytest.raises(CorruptPayload, match="isr"):
        LeaderAndIsr.decode(STATES[0][1].replace(b"[1,2]", isr))


def test_unknown_leader_recovery_state_is_rejected():
    with pytest.raises(CorruptPayload, match="unknown leader_recovery_state 2"):
        LeaderAndIsr.decode(STATES[0][1][:-1] + b',"leader_recovery_state":2}')
