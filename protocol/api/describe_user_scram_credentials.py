"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms of users.

    v0  introduced by KIP-554

Null or empty ``users`` select all.  Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    class User(Struct):
        name: str = string()

    users: list[User] | None = array(User, nullable="0+")


class DescribeUserScramCredentialsResponse(Message, key=50, versions="0", flexible="0+"):
    class User(Struct):
        class Credential(Struct):
            mechanism: int = int8()
            iterations: int = int32()

        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        credential_infos: list[Credential] = array(Credential)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[User] = array(User)
