"""ExpireDelegationToken (key 40): change the expiry time of a delegation token.

    v0  introduced by KIP-48
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

A negative ``expiry_time_period_ms`` expires the token immediately.
"""

from odradek.protocol.schema import Message, byte_string, int16, int32, int64


class ExpireDelegationTokenRequest(Message, key=40, versions="0-2", flexible="2+"):
    hmac: bytes = byte_string()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, key=40, versions="0-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
