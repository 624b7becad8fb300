"""RenewDelegationToken (key 39): extend a delegation token, up to its maximum lifetime.

    v0  introduced by KIP-48
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

A negative ``renew_period_ms`` is the broker's setting.
"""

from odradek.protocol.schema import Message, byte_string, int16, int32, int64


class RenewDelegationTokenRequest(Message, key=39, versions="0-2", flexible="2+"):
    hmac: bytes = byte_string()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, key=39, versions="0-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
