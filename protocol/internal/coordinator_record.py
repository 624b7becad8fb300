"""Keys and values of the internal topics: an int16 version, then a message of that version.

The int16 of a key is also the record type: 0 and 1 are committed offsets, 2 is a classic group, 3
and up belong to newer group protocols.  Record types of newer brokers are unknown here and are
skipped, so that a downgrade works. Kafka: CoordinatorRecordSerde, MessageUtil.
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
class CoordinatorRecordType:
    """The message classes of a record's key and value."""

    key: type[Message]
    value: type[Message]


#: The record types of ``__consumer_offsets``, by the int16 of the key.
GROUP_RECORD_TYPES: Mapping[int, CoordinatorRecordType] = {
    0: CoordinatorRecordType(group.OffsetCommitKey, group.OffsetCommitValue),
    1: CoordinatorRecordType(group.OffsetCommitKey, group.OffsetCommitValue),
    2: CoordinatorRecordType(group.GroupMetadataKey, group.GroupMetadataValue),
    3: CoordinatorRecordType(
        consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue
    ),
    4: CoordinatorRecordType(
        consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue
    ),
    5: CoordinatorRecordType(
        consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue
    ),
    6: CoordinatorRecordType(
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: CoordinatorRecordType(
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: CoordinatorRecordType(
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    10: CoordinatorRecordType(
        share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue
    ),
    11: CoordinatorRecordType(share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
    12: CoordinatorRecordType(
        share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue
    ),
    13: CoordinatorRecordType(
        share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue
    ),
    14: CoordinatorRecordType(
        share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue
    ),
    15: CoordinatorRecordType(
        share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue
    ),
    16: CoordinatorRecordType(
        consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue
    ),
}

#: The record types of ``__transaction_state``.
TRANSACTION_RECORD_TYPES: Mapping[int, CoordinatorRecordType] = {
    0: CoordinatorRecordType(transaction.TransactionLogKey, transaction.TransactionLogValue),
}


def encode_version_prefixed(message: Message, version: int) -> bytes:
    """Encode a key or value in its stored form."""
    return VERSION.pack(version) + encode_bytes(message, version)


def decode_version_prefixed(message: type[M], buffer: Buffer) -> M:
    """Decode a stored key or value; a version without a schema raises ``DecodeError``."""
    version = read_version_prefix(buffer)
    if version not in message.__schema__.versions:
        raise DecodeError(f"{message.__name__} has no version {version}")
    return decode(message, version, buffer, VERSION.size)


def read_version_prefix(buffer: Buffer) -> int:
    """Return the version at the beginning of a key or value."""
    if len(buffer) < VERSION.size:
        raise DecodeError(f"{len(buffer)} bytes are too few for a version")
    version: int
    (version,) = VERSION.unpack_from(buffer)
    return version
