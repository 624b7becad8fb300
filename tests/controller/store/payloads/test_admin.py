"""What tools ask of the controller through the tree, as Kafka writes it."""

from dataclasses import replace

import pytest

from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.protocol.types import TopicPartition

T_0, U_3 = TopicPartition("t", 0), TopicPartition("u", 3)
REASSIGNMENT = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
    b'{"topic":"u","partition":3,"replicas":[4]}]}'
)
ELECTION = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":3}]}'


def test_a_reassignment_is_written_as_kafka_writes_it():
    asked = ReassignPartitions({T_0: (1, 2), U_3: (4,)})
    assert asked.encode() == REASSIGNMENT
    assert ReassignPartitions.decode(REASSIGNMENT) == asked


def test_unknown_fields_outlive_the_end_of_one_reassignment():
    asked = ReassignPartitions.decode(REASSIGNMENT[:-1] + b',"throttle":5}')
    left = replace(asked, replicas={U_3: asked.replicas[U_3]})
    assert left.encode() == (
        b'{"version":1,"partitions":[{"topic":"u","partition":3,"replicas":[4]}],"throttle":5}'
    )


def test_of_a_partition_named_twice_the_last_word_counts():
    value = (
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
        b'{"topic":"t","partition":0,"replicas":[2],"log_dirs":["any"]}]}'
    )
    assert ReassignPartitions.decode(value).replicas == {T_0: (2,)}


def test_an_election_is_written_as_kafka_writes_it():
    asked = PreferredReplicaElection((T_0, U_3))
    assert asked.encode() == ELECTION
    assert PreferredReplicaElection.decode(ELECTION) == asked


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"partitions":null}',
        b'{"partitions":[{"topic":"t","partition":0}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":"1"}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[true]}]}',
        b'{"partitions":[{"partition":0,"replicas":[1]}]}',
    ],
)
def test_what_is_no_reassignment_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/admin/reassign_partitions: "):
        ReassignPartitions.decode(value)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"partitions":["t-0"]}'])
def test_what_asks_for_no_election_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/admin/preferred_replica_election: "):
        PreferredReplicaElection.decode(value)
