"""PushTelemetry (key 72): client pushes metrics."""

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
