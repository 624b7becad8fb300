"""GetTelemetrySubscriptions (key 71): the metrics that a client shall push, and how often.

    v0  introduced by KIP-714

A zero ``client_instance_id`` requests a new one, which is in the response.  Metrics are requested
by prefix: none by an empty list, all by a single empty string.  Compression types are numbered as
in record batches.
"""

from odradek.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid
from odradek.protocol.types import Uuid


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    client_instance_id: Uuid = uuid()


class GetTelemetrySubscriptionsResponse(Message, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
