"""Tests of broker/handlers/list_partition_reassignments.py."""

import pytest

from odradek.broker.handlers import list_partition_reassignments
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.errors import NotController
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer
from tests.support.fake_controller import FakeController

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (None, None),
        (
            [ListPartitionReassignmentsRequest.Topic(name="t", partition_indexes=[0, 1])],
            (T0, T1),
        ),
    ],
)
def test_ongoing_reassignments_are_listed(topics, expected):
    controller = FakeController(
        {T0: ReplicaAssignment((1, 2, 3), adding_replicas=(3,), removing_replicas=(1,))}
    )
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = answer(list_partition_reassignments.handle, controller, request)
    assert controller.asked == ((expected,), {})
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("t", 0)
    assert partition.replicas == [1, 2, 3]
    assert (partition.adding_replicas, partition.removing_replicas) == ([3], [1])


def test_not_controller_error_is_raised():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(list_partition_reassignments.handle, controller, ListPartitionReassignmentsRequest())
