"""DescribeCluster: the cluster's id, its controller and its brokers.

No broker of a ZooKeeper cluster is fenced, and none of its listeners is a controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.picture import NO_CONTROLLER, Node
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

BROKERS, CONTROLLERS = 1, 2


class Cluster(Protocol):
    """What is known of the cluster."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_id(self) -> int: ...

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


def handle(cluster: Cluster, call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    request = call.request
    _check_endpoint_type(request.endpoint_type)
    nodes = cluster.nodes(call.peer.listener)
    is_asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE.code,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id if cluster.controller_id in nodes else NO_CONTROLLER,
        brokers=[
            DescribeClusterResponse.Broker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack
            )
            for node in nodes.values()
        ],
        cluster_authorized_operations=(
            authorized_operations.ON_THE_CLUSTER
            if is_asked
            else authorized_operations.NOT_ASKED_FOR
        ),
    )


def _check_endpoint_type(endpoint_type: int) -> None:
    if endpoint_type == CONTROLLERS:
        raise KafkaError(
            "Brokers listen here, and no controllers.", error=ErrorCode.MISMATCHED_ENDPOINT_TYPE
        )
    if endpoint_type != BROKERS:
        raise KafkaError(
            f"There are no endpoints of type {endpoint_type}.",
            error=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        )
