"""CreateDelegationToken (key 38): a client requests a token to use instead of its credentials.

    v0  introduced by KIP-48
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  a token for an owner other than the requester (KIP-373)

``max_lifetime_ms`` -1 is the broker's limit.  An empty or null owner is the requester.
"""

from odradek.protocol.schema import Message, Struct, array, byte_string, int16, int32, int64, string


class CreateDelegationTokenRequest(Message, key=38, versions="0-3", flexible="2+"):
    class Renewer(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owner_principal_type: str | None = string("3+", nullable="3+", default="")
    owner_principal_name: str | None = string("3+", nullable="3+", default="")
    renewers: list[Renewer] = array(Renewer)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, key=38, versions="0-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = byte_string()
    throttle_time_ms: int = int32()
