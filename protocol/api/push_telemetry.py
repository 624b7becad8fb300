"""PushTelemetry (key 72): a client sends its metrics to the broker.

    v0  introduced by KIP-714

``metrics`` is an OpenTelemetry MetricsData v1 message in protobuf, compressed by a codec numbered
as in record batches.  ``terminating`` marks the client's last push.
"""

from odradek.protocol.schema import Message, boolean, byte_string, int8, int16, int32, uuid
from odradek.protocol.types import Uuid


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = byte_string()


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
