"""Tests of broker/handlers/alter_partition_reassignments.py."""

import pytest

from odradek.broker.handlers import alter_partition_reassignments
from odradek.protocol.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidReplicaAssignment, NotController
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer, versions_of
from tests.support.fake_controller import FakeController

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("version", versions_of(AlterPartitionReassignmentsRequest))
def test_reassignments_are_started_and_cancelled(version):
    controller = FakeController({T0: None, T1: InvalidReplicaAssignment("Broker 9 is away.")})
    partition = AlterPartitionReassignmentsRequest.Topic.Partition
    topic = AlterPartitionReassignmentsRequest.Topic(
        name="t",
        partitions=[
            partition(partition_index=0, replicas=[1, 2]),
            partition(partition_index=1, replicas=None),
        ],
    )
    may_change = version == 0
    request = AlterPartitionReassignmentsRequest(
        topics=[topic], allow_replication_factor_change=may_change
    )
    response = answer(alter_partition_reassignments.handle, controller, request, version=version)
    assert controller.asked == (
        ({T0: (1, 2), T1: None},),
        {"allow_replication_factor_change": may_change},
    )
    assert response.error_code == 0
    assert response.allow_replication_factor_change == may_change
    (topic_response,) = response.responses
    assert [(each.error_code, each.error_message) for each in topic_response.partitions] == [
        (0, None),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT.code, "Broker 9 is away."),
    ]


def test_not_controller_error_is_raised():
    controller = FakeController(NotController())
    with pytest.raises(NotController):
        answer(
            alter_partition_reassignments.handle,
            controller,
            AlterPartitionReassignmentsRequest(topics=[]),
        )
