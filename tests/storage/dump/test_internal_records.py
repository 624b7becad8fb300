"""The dump of internal topics: the records of the coordinators."""

from struct import pack

import pytest

from odradek.protocol.codec import encode_bytes
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.internal.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.internal.quorum_records import LeaderChangeMessage
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.dumps import dumped, printed, segment
from tests.support.recorded_directories import LEFT, RecordedDirectory

OFFSET_KEY = encode_version_prefixed(OffsetCommitKey(group="g", topic="t", partition=3), 1)
OFFSET_VALUE = encode_version_prefixed(
    OffsetCommitValue(offset=42, leader_epoch=2, metadata="m", commit_timestamp=5), 3
)
TRANSACTION_KEY = encode_version_prefixed(TransactionLogKey(transactional_id="x"), 0)
TRANSACTION_VALUE = encode_version_prefixed(
    TransactionLogValue(
        producer_id=9,
        producer_epoch=1,
        transaction_timeout_ms=1000,
        transaction_status=1,
        transaction_partitions=[
            TransactionLogValue.TopicPartitions(topic="t", partition_ids=[0, 1])
        ],
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=6,
    ),
    0,
)


def write_record(directory, key, value, **fields):
    return segment(directory, 0, batch_of(Record(0, 0, key, value), **fields))


def test_directory_name_selects_decoding_of_committed_offsets(tmp_path):
    log = write_record(tmp_path / "__consumer_offsets-7", OFFSET_KEY, OFFSET_VALUE)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["decoded"] == {
        "key": {
            "type": "OffsetCommitKey",
            "version": 1,
            "fields": {"group": "g", "topic": "t", "partition": 3},
        },
        "value": {
            "type": "OffsetCommitValue",
            "version": 3,
            "fields": {"offset": 42, "leader_epoch": 2, "metadata": "m", "commit_timestamp": 5},
        },
    }


def test_directory_name_selects_decoding_of_transactions(tmp_path):
    log = write_record(tmp_path / "__transaction_state-0", TRANSACTION_KEY, TRANSACTION_VALUE)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["decoded"]["key"]["fields"] == {"transactional_id": "x"}
    assert record["decoded"]["value"]["fields"] == {
        "producer_id": 9,
        "producer_epoch": 1,
        "transaction_timeout_ms": 1000,
        "transaction_status": "Ongoing",
        "transaction_partitions": [{"topic": "t", "partition_ids": [0, 1]}],
        "transaction_last_update_timestamp_ms": 7,
        "transaction_start_timestamp_ms": 6,
    }


@pytest.mark.parametrize(
    "name", ["events-0", "__consumer_offsets", "my__consumer_offsets-0", "elsewhere"]
)
def test_other_records_are_not_decoded(tmp_path, name):
    log = write_record(tmp_path / name, OFFSET_KEY, OFFSET_VALUE)
    (record,) = dumped(log, "--records").of_kind("record")
    assert "decoded" not in record


def test_future_log_directory_is_decoded_by_its_topic(tmp_path):
    name = f"__consumer_offsets-0.{'0' * 32}-future"
    log = write_record(tmp_path / name, OFFSET_KEY, OFFSET_VALUE)
    assert "decoded" in dumped(log, "--records").of_kind("record")[0]


def test_decode_option_implies_records_and_overrides_the_directory_name(tmp_path):
    log = write_record(tmp_path / "copied", OFFSET_KEY, OFFSET_VALUE)
    (record,) = dumped(log, "--decode", "offsets").of_kind("record")
    assert record["decoded"]["key"]["type"] == "OffsetCommitKey"
    log = write_record(tmp_path / "__consumer_offsets-0", TRANSACTION_KEY, TRANSACTION_VALUE)
    (record,) = dumped(log, "--decode", "transactions").of_kind("record")
    assert record["decoded"]["key"]["type"] == "TransactionLogKey"
    (record,) = dumped(log, "--decode", "none", "--records").of_kind("record")
    assert "decoded" not in record


def test_null_value_is_printed_as_deleted(tmp_path):
    log = write_record(tmp_path / "__consumer_offsets-0", OFFSET_KEY, None)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["decoded"]["value"] is None
    assert printed(log, "--records").output.endswith('"partition": 3}  deleted\n')


def test_members_of_a_classic_group_are_decoded(tmp_path):
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"\0")
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartitions(topic="t", partitions=[0, 2])
        ]
    )
    # The fields of a newer version begin with the known fields.
    newer = pack(">h", 9) + encode_bytes(assignment, 3) + b"more"
    log = write_group_record(tmp_path, pack(">h", 1) + encode_bytes(subscription, 1), newer)
    (record,) = dumped(log, "--records").of_kind("record")
    (member,) = record["decoded"]["value"]["fields"]["members"]
    assert member["subscription"] == {
        "version": 1,
        "topics": ["t"],
        "user_data": {"base64": "AA=="},
        "owned_partitions": [],
    }
    assert member["assignment"] == {
        "version": 9,
        "assigned_partitions": [{"topic": "t", "partitions": [0, 2]}],
        "user_data": None,
    }


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1not at all"])
def test_subscription_and_assignment_of_members_can_be_any_bytes(tmp_path, content):
    dump = dumped(write_group_record(tmp_path, content, content), "--records", "--verify")
    assert dump.exit_code == 0


def write_group_record(tmp_path, subscription, assignment):
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=subscription,
        assignment=assignment,
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member]
    )
    key = encode_version_prefixed(GroupMetadataKey(group="g"), 2)
    return write_record(tmp_path / "__consumer_offsets-0", key, encode_version_prefixed(value, 3))


def test_unknown_record_types_are_not_decoded(tmp_path):
    log = write_record(tmp_path / "__consumer_offsets-0", b"\0\x63newer", b"\0\0newer")
    dump = dumped(log, "--records", "--verify")
    assert dump.of_kind("record")[0]["decoded"] is None
    assert dump.exit_code == 0


def test_unknown_value_versions_are_printed_as_bytes(tmp_path):
    log = write_record(tmp_path / "__consumer_offsets-0", OFFSET_KEY, b"\0\x63\x80")
    dump = dumped(log, "--records", "--verify")
    assert dump.of_kind("record")[0]["decoded"]["value"] == {
        "type": "OffsetCommitValue",
        "version": 99,
        "bytes": {"base64": "AGOA"},
    }
    assert dump.exit_code == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, OFFSET_VALUE),
        (b"\0", OFFSET_VALUE),
        (OFFSET_KEY[:-1], OFFSET_VALUE),
        (OFFSET_KEY, OFFSET_VALUE + b"\0"),
        (OFFSET_KEY, b""),
    ],
)
def test_record_that_cannot_be_decoded_is_damage_and_is_printed(tmp_path, key, value):
    log = write_record(tmp_path / "__consumer_offsets-0", key, value)
    dump = dumped(log, "--records")
    assert "decoded" not in dump.of_kind("record")[0]
    ((_, position, reason),) = dump.damages
    assert position == 0
    assert reason.startswith("record 0: ")
    assert dumped(log, "--verify").exit_code == 1


def test_kraft_control_records_are_decoded(tmp_path):
    value = LeaderChangeMessage(version=0, leader_id=3, voters=[], granting_voters=[])
    key = pack(">hh", 0, 2)
    log = write_record(tmp_path, key, encode_bytes(value, 0), is_control=True)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["control"] == {
        "type": "leader_change",
        "value": {"version": 0, "leader_id": 3, "voters": [], "granting_voters": []},
    }


def test_transactions_that_kafka_wrote_are_decoded(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    dump = dumped(*sorted((tmp_path / LEFT).glob("__transaction_state-*")), "--records")
    decoded = [record["decoded"] for record in dump.of_kind("record")]
    assert len(decoded) > 10
    assert {transaction["key"]["type"] for transaction in decoded} == {"TransactionLogKey"}
    statuses = {transaction["value"]["fields"]["transaction_status"] for transaction in decoded}
    assert {"Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"} <= statuses
