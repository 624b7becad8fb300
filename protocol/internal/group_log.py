"""Keys and values in ``__consumer_offsets``: committed offsets and classic groups.

The partition is determined by the hash of the group id.  Every key and value begins with an int16
version, which is not part of the messages below.  The key's version is the record type; a null
value is a tombstone.

    OffsetCommitKey     v0  the oldest brokers; read only
                        v1  the same fields; written
    OffsetCommitValue   v0  the oldest brokers
                        v1  an expiry time; written if the commit request has a retention time
                        v2  none: the group decides when its offsets expire (KIP-211)
                        v3  the leader epoch (KIP-320); written
                        v4  first flexible version; never written (KIP-915)
    GroupMetadataKey    v2  written
    GroupMetadataValue  v0  the session timeout is also the rebalance timeout
                        v1  a separate rebalance timeout (KIP-62)
                        v2  the time of the last state change (KIP-211)
                        v3  instances of static members (KIP-345); written
                        v4  first flexible version; never written (KIP-915)

All versions are read.  If ``protocol_type`` is ``consumer``, ``subscription`` and ``assignment``
have the format of ``consumer_protocol.py``.
"""

from odradek.protocol.schema import Message, Struct, array, byte_string, int32, int64, string


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string("0-1")
    topic: str = string("0-1")
    partition: int = int32("0-1")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    class MemberMetadata(Struct):
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
        client_id: str = string()
        client_host: str = string()
        rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
        session_timeout: int = int32()
        subscription: bytes = byte_string()
        assignment: bytes = byte_string()

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
