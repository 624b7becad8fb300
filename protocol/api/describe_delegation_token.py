"""DescribeDelegationToken (key 41): list the delegation tokens that a client may see.

    v0  introduced by KIP-48
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  the requester of each token (KIP-373)

Null ``owners`` select the tokens of all owners.
"""

from odradek.protocol.schema import Message, Struct, array, byte_string, int16, int32, int64, string


class DescribeDelegationTokenRequest(Message, key=41, versions="0-3", flexible="2+"):
    class Owner(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owners: list[Owner] | None = array(Owner, nullable="0+")


class DescribeDelegationTokenResponse(Message, key=41, versions="0-3", flexible="2+"):
    class Token(Struct):
        class Renewer(Struct):
            principal_type: str = string()
            principal_name: str = string()

        principal_type: str = string()
        principal_name: str = string()
        token_requester_principal_type: str = string("3+", default="")
        token_requester_principal_name: str = string("3+", default="")
        issue_timestamp: int = int64()
        expiry_timestamp: int = int64()
        max_timestamp: int = int64()
        token_id: str = string()
        hmac: bytes = byte_string()
        renewers: list[Renewer] = array(Renewer)

    error_code: int = int16()
    tokens: list[Token] = array(Token)
    throttle_time_ms: int = int32()
