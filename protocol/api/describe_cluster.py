"""DescribeCluster (key 60): the cluster's id, its controller and its brokers.

    v0  introduced by KIP-700
    v1  the endpoint type: brokers or controllers (KIP-919)
    v2  fenced brokers are shown on request (KIP-1073)

``endpoint_type``: 1 brokers, 2 controllers.  ``cluster_authorized_operations``: as in
``describe_acls.py``.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    class Broker(Struct):
        broker_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)
        is_fenced: bool = boolean("2+", default=False)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[Broker] = array(Broker)
    cluster_authorized_operations: int = int32(default=-2147483648)
