"""Subscriptions and assignments: what the members of a consumer group tell each other."""

from odradek.protocol.schema import Message, Struct, array, byte_string, int32, string


class ConsumerProtocolSubscription(Message, versions="0-3"):
    class TopicPartitions(Struct):
        topic: str = string("1+")
        partitions: list[int] = array(int32, "1+")

    topics: list[str] = array(string)
    user_data: bytes | None = byte_string(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(
        TopicPartitions, "1+", default=[], ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    class TopicPartitions(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = byte_string(nullable="0+", default=None)
