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
NOT_REQUESTED = -(2**31)


def describe(*, includes_operations=False, version=1, listener=INSIDE, **fields):
    brokers = [live_broker(1, rack="r"), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=includes_operations, **fields
    )
    metadata_cache = cluster(update(brokers=brokers, controller_id=1))
    return answer(
        describe_cluster.handle, metadata_cache, request, version=version, listener=listener
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_cluster_is_described_in_every_version(version):
    response = describe(version=version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert response.endpoint_type == 1
    assert response.brokers == [
        DescribeClusterResponse.Broker(broker_id=1, host="inside1", port=9092, rack="r"),
        DescribeClusterResponse.Broker(broker_id=2, host="inside2", port=9092),
    ]
    assert response.cluster_authorized_operations == NOT_REQUESTED


def test_controller_without_the_clients_listener_is_not_returned():
    response = describe(listener=OUTSIDE)
    assert [each.broker_id for each in response.brokers] == [2]
    assert response.controller_id == -1


def test_authorized_operations_are_returned_on_request():
    response = describe(includes_operations=True)
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_broker_endpoints_can_be_described(endpoint_type, error):
    with pytest.raises(KafkaError) as raised:
        describe(endpoint_type=endpoint_type)
    assert raised.value.error_code is error
