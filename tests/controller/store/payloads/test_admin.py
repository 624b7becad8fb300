"""The reassignment and preferred replica election znodes, as Kafka writes them."""

from dataclasses import replace

import pytest

from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.protocol.types import TopicPartition

T_0, U_3 = TopicPartition("t", 0), TopicPartition("u", 3)
REASSIGNMENT = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
    b'{"topic":"u","partition":3,"replicas":[4]}]}'
)
ELECTION = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":3}]}'


def test_reassignment_is_encoded_as_in_kafka():
    request = ReassignPartitions({T_0: (1, 2), U_3: (4,)})
    assert request.encode() == REASSIGNMENT
    assert ReassignPartitions.decode(REASSIGNMENT) == request


def test_unknown_fields_are_kept_when_one_reassignment_completes():
    request = ReassignPartitions.decode(REASSIGNMENT[:-1] + b',"throttle":5}')
    remaining = replace(request, replicas={U_3: request.replicas[U_3]})
    assert remaining.encode() == (
        b'{"version":1,"partitions":[{"topic":"u","partition":3,"replicas":[4]}],"throttle":5}'
    )


def test_last_entry_of_a_duplicate_partition_wins():
    value = (
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
        b'{"topic":"t","partition":0,"replicas":[2],"log_dirs":["any"]}]}'
    )
    assert ReassignPartitions.decode(value).replicas == {T_0: (2,)}


def test_election_is_encoded_as_in_kafka():
    request = PreferredReplicaElection((T_0, U_3))
    assert request.encode() == ELECTION
    assert PreferredReplicaElection.decode(ELECTION) == request


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
def test_malformed_reassignment_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/admin/reassign_partitions: "):
        ReassignPartitions.decode(value)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"partitions":["t-0"]}'])
def test_malformed_election_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/admin/preferred_replica_election: "):
        PreferredReplicaElection.decode(value)
