"""Tests of broker/handlers/describe_cluster.py."""

import pytest

from odradek.broker.handlers import describe_cluster
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from tests.support.calls import answer, versions_of
from tests.support.metadata_updates import (
    CLUSTER_ID,
    INSIDE,
    OUTSIDE,
    cluster,
    live_broker,
    update,
)

VERSIONS = versions_of(DescribeClusterRequest)
NOT_ASKED_FOR = -(2**31)


def described(*, includes_operations=False, version=1, listener=INSIDE, **asked):
    brokers = [live_broker(1, rack="r"), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=includes_operations, **asked
    )
    known = cluster(update(brokers=brokers, controller_id=1))
    return answer(describe_cluster.handle, known, request, version=version, listener=listener)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster_is_described_in_every_version(version):
    answered = described(version=version)
    assert (answered.error_code, answered.error_message) == (0, None)
    assert (answered.cluster_id, answered.controller_id) == (CLUSTER_ID, 1)
    assert answered.endpoint_type == 1
    assert answered.brokers == [
        DescribeClusterResponse.Broker(broker_id=1, host="inside1", port=9092, rack="r"),
        DescribeClusterResponse.Broker(broker_id=2, host="inside2", port=9092),
    ]
    assert answered.cluster_authorized_operations == NOT_ASKED_FOR


def test_a_controller_without_the_clients_listener_is_not_named():
    answered = described(listener=OUTSIDE)
    assert [each.broker_id for each in answered.brokers] == [2]
    assert answered.controller_id == -1


def test_operations_are_told_if_they_are_asked_for():
    answered = described(includes_operations=True)
    assert answered.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_can_be_asked_for(endpoint_type, error):
    with pytest.raises(KafkaError) as refusal:
        described(endpoint_type=endpoint_type)
    assert refusal.value.error is error
