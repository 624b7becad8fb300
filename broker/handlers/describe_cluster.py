"""DescribeCluster: the cluster id, the controller and the brokers.

A ZooKeeper cluster has no fenced brokers and no controller endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.metadata_snapshot import NO_CONTROLLER, Node
from odradek.broker.request import Request
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_id(self) -> int: ...

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


def handle(
    metadata_cache: ClusterMetadata, request: Request[DescribeClusterRequest]
) -> DescribeClusterResponse:
    body = request.body
    _check_endpoint_type(body.endpoint_type)
    nodes = metadata_cache.nodes(request.context.listener)
    include_operations = body.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE.code,
        cluster_id=metadata_cache.cluster_id,
        controller_id=metadata_cache.controller_id
        if metadata_cache.controller_id in nodes
        else NO_CONTROLLER,
        brokers=[
            DescribeClusterResponse.Broker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack
            )
            for node in nodes.values()
        ],
        cluster_authorized_operations=(
            authorized_operations.CLUSTER_OPERATIONS
            if include_operations
            else authorized_operations.AUTHORIZED_OPERATIONS_OMITTED
        ),
    )


def _check_endpoint_type(endpoint_type: int) -> None:
    if endpoint_type == CONTROLLER_ENDPOINTS:
        raise KafkaError(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        )
    if endpoint_type != BROKER_ENDPOINTS:
        raise KafkaError(
            f"Unsupported endpoint type {endpoint_type}",
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        )
