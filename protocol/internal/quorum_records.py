"""Values of the control records that a KRaft quorum writes into its log.

They are read to dump such logs; a broker in ZooKeeper mode never writes them.  The type in the
record's key selects the message. No version precedes the message, because each begins with its own.

    type 2  LeaderChangeMessage   v0  introduced by KIP-595
                                  v1  voters have a directory (KIP-853)
         3  SnapshotHeaderRecord  v0  introduced by KIP-630
         4  SnapshotFooterRecord  v0  introduced by KIP-630
         5  KRaftVersionRecord    v0  introduced by KIP-853
         6  VotersRecord          v0  introduced by KIP-853
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    class Voter(Struct):
        voter_id: int = int32()
        voter_directory_id: Uuid = uuid("1+", default=ZERO_UUID)

    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    kraft_version: int = int16()


class VotersRecord(Message, versions="0", flexible="0+"):
    class Voter(Struct):
        class Endpoint(Struct):
            name: str = string()
            host: str = string()
            port: int = uint16()

        class KRaftVersionFeature(Struct):
            min_supported_version: int = int16()
            max_supported_version: int = int16()

        voter_id: int = int32()
        voter_directory_id: Uuid = uuid()
        endpoints: list[Endpoint] = array(Endpoint)
        kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)

    version: int = int16()
    voters: list[Voter] = array(Voter)
