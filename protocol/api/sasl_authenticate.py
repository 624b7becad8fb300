"""SaslAuthenticate (key 36): client and broker exchange the tokens of a SASL mechanism.

    v0  introduced by KIP-152
    v1  the session lifetime, after which the client must reauthenticate (KIP-368)
    v2  first flexible version

``session_lifetime_ms`` 0 is unlimited.
"""

from odradek.protocol.schema import Message, byte_string, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = byte_string()


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = byte_string()
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
