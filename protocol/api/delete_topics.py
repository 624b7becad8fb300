"""DeleteTopics (key 20): delete topics and their records.

    v0  introduced by KIP-4
    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  TOPIC_DELETION_DISABLED where v2 returned INVALID_REQUEST (KIP-322)
    v4  first flexible version
    v5  errors have a message; may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
    v6  a topic is named by name or by id (KIP-516)

From v6 on the response's name is null if the id is unknown or Describe is not permitted.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string, uuid
from odradek.protocol.types import ZERO_UUID, Uuid


class DeleteTopicsRequest(Message, key=20, versions="0-6", flexible="4+"):
    class Topic(Struct):
        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: Uuid = uuid("6+")

    topics: list[Topic] = array(Topic, "6+", default=[])
    topic_names: list[str] = array(string, "0-5", default=[], ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicsResponse(Message, key=20, versions="0-6", flexible="4+"):
    class Topic(Struct):
        name: str | None = string(nullable="6+")
        topic_id: Uuid = uuid("6+", default=ZERO_UUID, ignorable=True)
        error_code: int = int16()
        error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    responses: list[Topic] = array(Topic)
