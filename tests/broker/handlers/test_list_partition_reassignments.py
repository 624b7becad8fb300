"""Tests of broker/handlers/list_partition_reassignments.py."""

import pytest

from odradek.broker.handlers import list_partition_reassignments
from odradek.controller.assignment import Assignment
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.errors import NotController
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer
from tests.support.fake_controller import FakeController

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("topics", "asked"),
    [
        (None, None),
        (
            [ListPartitionReassignmentsRequest.Topic(name="t", partition_indexes=[0, 1])],
            (T0, T1),
        ),
    ],
)
def test_reassignments_under_way_are_listed(topics, asked):
    controller = FakeController({T0: Assignment((1, 2, 3), adding=(3,), removing=(1,))})
    request = ListPartitionReassignmentsRequest(topics=topics)
    answered = answer(list_partition_reassignments.handle, controller, request)
    assert controller.asked == ((asked,), {})
    (topic,) = answered.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("t", 0)
    assert partition.replicas == [1, 2, 3]
    assert (partition.adding_replicas, partition.removing_replicas) == ([3], [1])


def test_another_brokers_controller_may_be_in_office():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(list_partition_reassignments.handle, controller, ListPartitionReassignmentsRequest())
