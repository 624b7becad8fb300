"""ListClientMetricsResources (key 74): list the resources that have a configuration.

    v0  introduced by KIP-1000, for client metrics only
    v1  any type of resource, under the name ListConfigResources (KIP-1142)

Resource types: as in ``describe_configs.py``; an empty list selects all.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class ListClientMetricsResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+", default=[])


class ListClientMetricsResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    class Resource(Struct):
        name: str = string()
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_metrics_resources: list[Resource] = array(Resource)
