"""AlterPartition (key 56): a leader asks the controller to shrink or expand the ISR.

    v0  introduced by KIP-497
    v1  the leader recovery state: recovering from an unclean election or not (KIP-704)
    v2  topic ids instead of names; INELIGIBLE_REPLICA and NEW_LEADER_ELECTED (KIP-841)
    v3  every replica in the request carries its broker epoch (KIP-903)

``leader_recovery_state``: 0 recovered, 1 recovering.  ``partition_epoch`` is the version of the
partition's state; a change must contain the current one.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid
from odradek.protocol.types import ZERO_UUID, Uuid


class AlterPartitionRequest(Message, key=56, versions="0-3", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            class BrokerState(Struct):
                broker_id: int = int32("3+")
                broker_epoch: int = int64("3+", default=-1)

            partition_index: int = int32()
            leader_epoch: int = int32()
            new_isr: list[int] = array(int32, "0-2", default=[])
            new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", default=[])
            leader_recovery_state: int = int8("1+", default=0)
            partition_epoch: int = int32()

        topic_name: str = string("0-1", default="", ignorable=True)
        topic_id: Uuid = uuid("2+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[Topic] = array(Topic)


class AlterPartitionResponse(Message, key=56, versions="0-3", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()
            leader_id: int = int32()
            leader_epoch: int = int32()
            isr: list[int] = array(int32)
            leader_recovery_state: int = int8("1+", default=0, ignorable=True)
            partition_epoch: int = int32()

        topic_name: str = string("0-1", default="", ignorable=True)
        topic_id: Uuid = uuid("2+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[Topic] = array(Topic)
