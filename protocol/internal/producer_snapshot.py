"""The ``.snapshot`` file of a partition: its producers' state at the offset in the file's name.

The file is an int16 version, which is not part of the message below, and the message.

    v1  the only version, read and written

``crc`` is the CRC-32C of all following bytes.  ``current_txn_first_offset`` is -1 if the producer
has no open transaction.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, uint32


class ProducerSnapshot(Message, versions="1"):
    class ProducerEntry(Struct):
        producer_id: int = int64("1")
        epoch: int = int16("1")
        last_sequence: int = int32("1")
        last_offset: int = int64("1")
        offset_delta: int = int32("1")
        timestamp: int = int64("1")
        coordinator_epoch: int = int32("1")
        current_txn_first_offset: int = int64("1")

    crc: int = uint32("1")
    producer_entries: list[ProducerEntry] = array(ProducerEntry, "1")
