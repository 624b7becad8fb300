"""CreatePartitions (key 37): add partitions to topics.

    v0  introduced by KIP-195
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  may return THROTTLING_QUOTA_EXCEEDED (KIP-599)

``count`` is the new total.  ``assignments`` has the replicas of the added partitions only; if null,
the controller chooses them.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    class Topic(Struct):
        class Assignment(Struct):
            broker_ids: list[int] = array(int32)

        name: str = string()
        count: int = int32()
        assignments: list[Assignment] | None = array(Assignment, nullable="0+")

    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    class Topic(Struct):
        name: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    results: list[Topic] = array(Topic)
