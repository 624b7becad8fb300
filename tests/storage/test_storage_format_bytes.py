"""A fixed sequence of appends to one partition, and every byte of the resulting files.

    offset 0-1  epoch 3  producer 7 writes two records in a transaction
           2    epoch 3  a non-transactional producer writes one record
           3    epoch 3  the coordinator aborts the transaction; then the log rolls
           4    epoch 4  producer 9 begins a transaction, and the log is closed

The bytes were written by hand from the formats, their checksums computed with crcmod.
"""

import pytest

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Header
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import clean_shutdown, meta_properties, partition_metadata
from odradek.storage.meta_properties import MetaProperties
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.logs import NOW_MS, opened


def parse_bytes(annotated: str) -> bytes:
    """The bytes that each line gives in hexadecimal before two spaces."""
    lines = (line.strip().partition("  ")[0] for line in annotated.splitlines())
    return bytes.fromhex("".join(lines))


FIRST_LOG = parse_bytes("""
    00 00 00 00 00 00 00 00  base offset 0
    00 00 00 45              69 bytes follow
    00 00 00 03              leader epoch 3
    02                       magic
    d0 9a 74 55              CRC-32C of what follows
    00 10                    transactional
    00 00 00 01              last offset delta 1
    00 00 00 00 00 00 03 e8  base timestamp 1000
    00 00 00 00 00 00 03 ed  largest timestamp 1005
    00 00 00 00 00 00 00 07  producer 7
    00 00                    producer epoch 0
    00 00 00 00              base sequence 0
    00 00 00 02              two records
        10                   8 bytes follow: as all of a record's numbers, in zigzag
        00                   attributes
        00                   timestamp delta 0
        00                   offset delta 0
        02 61                key "a"
        02 31                value "1"
        00                   no headers
        14                   10 bytes follow
        00                   attributes
        0a                   timestamp delta 5
        02                   offset delta 1
        01                   no key
        02 32                value "2"
        02                   one header
            02 68            name "h"
            01               no value

    00 00 00 00 00 00 00 02  base offset 2; this is position 81
    00 00 00 39              57 bytes follow
    00 00 00 03              leader epoch 3
    02                       magic
    ae 67 38 df              CRC-32C of what follows
    00 00                    neither compressed nor transactional
    00 00 00 00              last offset delta 0
    00 00 00 00 00 00 07 d0  base timestamp 2000
    00 00 00 00 00 00 07 d0  largest timestamp 2000
    ff ff ff ff ff ff ff ff  no producer
    ff ff                    no producer epoch
    ff ff ff ff              no sequence
    00 00 00 01              one record
        0e                   7 bytes follow
        00 00 00             attributes, timestamp delta, offset delta
        02 62                key "b"
        00                   empty value
        00                   no headers

    00 00 00 00 00 00 00 03  base offset 3; this is position 150
    00 00 00 42              66 bytes follow
    00 00 00 03              leader epoch 3
    02                       magic
    4b 68 cd 90              CRC-32C of what follows
    00 30                    transactional, control
    00 00 00 00              last offset delta 0
    00 00 00 00 00 00 0b b8  base timestamp 3000
    00 00 00 00 00 00 0b b8  largest timestamp 3000
    00 00 00 00 00 00 00 07  producer 7
    00 00                    producer epoch 0
    ff ff ff ff              no sequence
    00 00 00 01              one record
        20                   16 bytes follow
        00 00 00             attributes, timestamp delta, offset delta
        08                   a key of 4 bytes
            00 00            version 0
            00 00            abort
        0c                   a value of 6 bytes
            00 00            version 0
            00 00 00 05      coordinator epoch 5
        00                   no headers
""")

# A batch gets an entry if more than 60 bytes were written since the last entry.
FIRST_INDEX = parse_bytes("""
    00 00 00 02              offset 2
    00 00 00 51              at position 81

    00 00 00 03              offset 3
    00 00 00 96              at position 150
""")

FIRST_TIME_INDEX = parse_bytes("""
    00 00 00 00 00 00 07 d0  timestamp 2000
    00 00 00 02              at offset 2

    00 00 00 00 00 00 0b b8  timestamp 3000: the largest of the segment, so that none is added
    00 00 00 03              at offset 3
""")

FIRST_TRANSACTION_INDEX = parse_bytes("""
    00 00                    version 0
    00 00 00 00 00 00 00 07  producer 7
    00 00 00 00 00 00 00 00  from offset 0
    00 00 00 00 00 00 00 03  to offset 3
    00 00 00 00 00 00 00 04  the last stable offset was then 4
""")

SNAPSHOT_AT_4 = parse_bytes("""
    00 01                    version 1
    6c 07 3c 31              CRC-32C of what follows
    00 00 00 01              one producer

    00 00 00 00 00 00 00 07  producer 7
    00 00                    epoch 0
    00 00 00 01              last sequence 1
    00 00 00 00 00 00 00 01  last offset 1
    00 00 00 01              which is one more than the first of that batch
    00 00 00 00 00 00 0b b8  last timestamp 3000
    00 00 00 05              coordinator epoch 5
    ff ff ff ff ff ff ff ff  no open transaction
""")

SECOND_LOG = parse_bytes("""
    00 00 00 00 00 00 00 04  base offset 4
    00 00 00 39              57 bytes follow
    00 00 00 04              leader epoch 4
    02                       magic
    5e d2 33 75              CRC-32C of what follows
    00 10                    transactional
    00 00 00 00              last offset delta 0
    00 00 00 00 00 00 09 c4  base timestamp 2500
    00 00 00 00 00 00 09 c4  largest timestamp 2500
    00 00 00 00 00 00 00 09  producer 9
    00 02                    producer epoch 2
    00 00 00 0a              base sequence 10
    00 00 00 01              one record
        0e                   7 bytes follow
        00 00 00             attributes, timestamp delta, offset delta
        01                   no key
        02 33                value "3"
        00                   no headers
""")

SECOND_TIME_INDEX = parse_bytes("""
    00 00 00 00 00 00 09 c4  timestamp 2500, added when the log was closed
    00 00 00 00              at offset 4, the base offset
""")

SNAPSHOT_AT_5 = parse_bytes("""
    00 01                    version 1
    22 6e a3 4c              CRC-32C of what follows
    00 00 00 02              two producers

    00 00 00 00 00 00 00 07  producer 7
    00 00                    epoch 0
    00 00 00 01              last sequence 1
    00 00 00 00 00 00 00 01  last offset 1
    00 00 00 01              which is one more than the first of that batch
    00 00 00 00 00 00 0b b8  last timestamp 3000
    00 00 00 05              coordinator epoch 5
    ff ff ff ff ff ff ff ff  no open transaction

    00 00 00 00 00 00 00 09  producer 9
    00 02                    epoch 2
    00 00 00 0a              last sequence 10
    00 00 00 00 00 00 00 04  last offset 4
    00 00 00 00              which is the first of that batch
    00 00 00 00 00 00 09 c4  last timestamp 2500
    ff ff ff ff              no coordinator epoch
    00 00 00 00 00 00 00 04  a transaction is open from offset 4 on
""")

PARTITION_FILES = {
    "00000000000000000000.log": FIRST_LOG,
    "00000000000000000000.index": FIRST_INDEX,
    "00000000000000000000.timeindex": FIRST_TIME_INDEX,
    "00000000000000000000.txnindex": FIRST_TRANSACTION_INDEX,
    "00000000000000000004.log": SECOND_LOG,
    "00000000000000000004.index": b"",
    "00000000000000000004.timeindex": SECOND_TIME_INDEX,
    "00000000000000000004.snapshot": SNAPSHOT_AT_4,
    "00000000000000000005.snapshot": SNAPSHOT_AT_5,
    "leader-epoch-checkpoint": b"0\n2\n3 0\n4 4\n",
    "partition.metadata": b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
}

DIRECTORY_FILES = {
    "recovery-point-offset-checkpoint": b"0\n1\norders 0 5\n",
    "replication-offset-checkpoint": b"0\n2\norders 0 5\norders 1 0\n",
    "log-start-offset-checkpoint": b"0\n0\n",
    "cleaner-offset-checkpoint": b"0\n1\norders 0 4\n",
    "meta.properties": b"version=0\nbroker.id=3\ncluster.id=Xb3sBvEaSYq6nL9Gb1hPiA\n",
    ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}',
}


@pytest.mark.parametrize("name", PARTITION_FILES)
def test_partition_files_have_the_expected_bytes(name, tmp_path):
    write_partition(tmp_path / "orders-0")
    assert (tmp_path / "orders-0" / name).read_bytes().hex(" ") == PARTITION_FILES[name].hex(" ")


def test_partition_has_no_other_files(tmp_path):
    write_partition(tmp_path / "orders-0")
    assert {path.name for path in (tmp_path / "orders-0").iterdir()} == set(PARTITION_FILES)


def test_log_directory_files_have_the_expected_bytes(tmp_path):
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    RECOVERY_POINTS.write(tmp_path, {first: 5})
    HIGH_WATERMARKS.write(tmp_path, {first: 5, second: 0})
    LOG_START_OFFSETS.write(tmp_path, {})
    CLEANER_OFFSETS.write(tmp_path, {first: 4})
    owner = MetaProperties(broker_id=3, cluster_id="Xb3sBvEaSYq6nL9Gb1hPiA")
    meta_properties.write(tmp_path, owner)
    clean_shutdown.write(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == DIRECTORY_FILES


def write_partition(directory):
    log = opened(directory, index_interval_bytes=60)
    partition_metadata.write(directory, Uuid(bytes(range(16))))
    first = BatchBuilder(
        BatchFields(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    first.append(timestamp=1000, key=b"a", value=b"1")
    first.append(timestamp=1005, key=None, value=b"2", headers=[Header("h", None)])
    append(log, first.build(), leader_epoch=3)
    second = BatchBuilder()
    second.append(timestamp=2000, key=b"b", value=b"")
    append(log, second.build(), leader_epoch=3)
    abort = EndTransactionMarker(is_commit=False, coordinator_epoch=5)
    third = build_marker_batch(abort, timestamp=3000, producer_id=7, producer_epoch=0)
    append(log, third, leader_epoch=3, origin=AppendOrigin.COORDINATOR)
    log.roll(now_ms=NOW_MS)
    fourth = BatchBuilder(
        BatchFields(producer_id=9, producer_epoch=2, base_sequence=10, is_transactional=True)
    )
    fourth.append(timestamp=2500, key=None, value=b"3")
    append(log, fourth.build(), leader_epoch=4)
    log.close(now_ms=NOW_MS)


def append(log, batch, *, leader_epoch, origin=AppendOrigin.CLIENT):
    log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=origin)
    log.update_high_watermark(log.log_end_offset)
