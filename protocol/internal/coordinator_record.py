"""Keys and values of the internal topics: an int16, then a message of that version.

A key's int16 also tells what kind of record it is: 0 and 1 are committed offsets, 2 is a classic
group, 3 and up belong to newer group protocols.  Kinds that a newer broker wrote are unknown here
and are passed over, so that a downgrade finds its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

from odradek.protocol.codec import Buffer, decode, encode_bytes
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal import consumer_group_log as consumer
from odradek.protocol.internal import group_log as group
from odradek.protocol.internal import share_group_log as share
from odradek.protocol.internal import transaction_log as transaction
from odradek.protocol.schema import Message

VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Kind:
    """The class of a record's key, and that of its value."""

    key: type[Message]
    value: type[Message]


#: The key's int16 -> what the record is, in ``__consumer_offsets``.
GROUP_LOG: Mapping[int, Kind] = {
    0: Kind(group.OffsetCommitKey, group.OffsetCommitValue),
    1: Kind(group.OffsetCommitKey, group.OffsetCommitValue),
    2: Kind(group.GroupMetadataKey, group.GroupMetadataValue),
    3: Kind(consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    4: Kind(
        consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue
    ),
    5: Kind(consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    6: Kind(
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: Kind(
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: Kind(
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    10: Kind(share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
    11: Kind(share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
    12: Kind(
        share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue
    ),
    13: Kind(
        share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue
    ),
    14: Kind(
        share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue
    ),
    15: Kind(
        share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue
    ),
    16: Kind(
        consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue
    ),
}

#: The same in ``__transaction_state``.
TRANSACTION_LOG: Mapping[int, Kind] = {
    0: Kind(transaction.TransactionLogKey, transaction.TransactionLogValue),
}


def encode_part(message: Message, version: int) -> bytes:
    """A key or a value as it is stored."""
    return VERSION.pack(version) + encode_bytes(message, version)


def decode_part(message: type[M], stored: Buffer) -> M:
    """The key or value that was stored; a version without a schema raises ``DecodeError``."""
    version = part_version(stored)
    if version not in message.__schema__.versions:
        raise DecodeError(f"{message.__name__} has no version {version}")
    return decode(message, version, stored, VERSION.size)


def part_version(stored: Buffer) -> int:
    """The version at the beginning of a key or value."""
    if len(stored) < VERSION.size:
        raise DecodeError(f"{len(stored)} bytes are too few for a version")
    version: int
    (version,) = VERSION.unpack_from(stored)
    return version
