"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id.

    v1  the key has a type (KIP-98); the response has a throttle time and an error message
    v2  the response is sent before throttling (KIP-219)
    v3  first flexible version
    v4  several keys at once (KIP-699)
    v5  may return TRANSACTION_ABORTABLE (KIP-890)
    v6  share groups (KIP-932)

Key types: 0 group, 1 transactional id, 2 share group, with keys ``group:topic id:partition``.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array(string, "4+", default=[])


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    class Coordinator(Struct):
        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, "4+", default=[])
