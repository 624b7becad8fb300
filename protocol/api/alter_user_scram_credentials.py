"""AlterUserScramCredentials (key 51): set or delete the SCRAM credentials of users.

    v0  introduced by KIP-554

Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.  The client never sends the password
itself, only the salted and iterated hash.
"""

from odradek.protocol.schema import Message, Struct, array, byte_string, int8, int16, int32, string


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    class Deletion(Struct):
        name: str = string()
        mechanism: int = int8()

    class Upsertion(Struct):
        name: str = string()
        mechanism: int = int8()
        iterations: int = int32()
        salt: bytes = byte_string()
        salted_password: bytes = byte_string()

    deletions: list[Deletion] = array(Deletion)
    upsertions: list[Upsertion] = array(Upsertion)


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    class User(Struct):
        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    results: list[User] = array(User)
