"""Subscriptions and assignments that the members of a classic consumer group exchange.

They are bytes, opaque to the broker, in the ``metadata`` of JoinGroup and the ``assignment`` of
SyncGroup if the protocol type is ``consumer``, and are stored in the group's log.  An int16
version, which is not part of the messages below, precedes each.

    v1  a subscription contains the partitions that its member still owns (KIP-429)
    v2  and the generation in which it owned them (KIP-792)
    v3  and the member's rack (KIP-881)

Assignments are the same in all versions.  A newer version begins with these fields: it is decoded
as v3, and the bytes after them are ignored.
"""

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
