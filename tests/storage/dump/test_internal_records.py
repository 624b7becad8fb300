"""The dump of internal topics: what coordinators wrote for themselves."""

from struct import pack

import pytest

from odradek.protocol.codec import encode_bytes
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.internal.log_record import encode_part
from odradek.protocol.internal.quorum_records import LeaderChangeMessage
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.dumps import dumped, printed, segment
from tests.support.recorded_directories import LEFT, RecordedDirectory

OFFSET_KEY = encode_part(OffsetCommitKey(group="g", topic="t", partition=3), 1)
OFFSET_VALUE = encode_part(
    OffsetCommitValue(offset=42, leader_epoch=2, metadata="m", commit_timestamp=5), 3
)
TRANSACTION_KEY = encode_part(TransactionLogKey(transactional_id="x"), 0)
TRANSACTION_VALUE = encode_part(
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


def written(directory, key, value, **fields):
    return segment(directory, 0, batch_of(Record(0, 0, key, value), **fields))


def test_committed_offsets_are_decoded_by_the_name_of_the_directory(tmp_path):
    log = written(tmp_path / "__consumer_offsets-7", OFFSET_KEY, OFFSET_VALUE)
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


def test_transactions_are_decoded_by_the_name_of_the_directory(tmp_path):
    log = written(tmp_path / "__transaction_state-0", TRANSACTION_KEY, TRANSACTION_VALUE)
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
    log = written(tmp_path / name, OFFSET_KEY, OFFSET_VALUE)
    (record,) = dumped(log, "--records").of_kind("record")
    assert "decoded" not in record


def test_a_directory_on_its_way_keeps_its_topic(tmp_path):
    name = f"__consumer_offsets-0.{'0' * 32}-future"
    log = written(tmp_path / name, OFFSET_KEY, OFFSET_VALUE)
    assert "decoded" in dumped(log, "--records").of_kind("record")[0]


def test_the_decoding_asked_for_implies_records_and_outweighs_the_name(tmp_path):
    log = written(tmp_path / "copied", OFFSET_KEY, OFFSET_VALUE)
    (record,) = dumped(log, "--decode", "offsets").of_kind("record")
    assert record["decoded"]["key"]["type"] == "OffsetCommitKey"
    log = written(tmp_path / "__consumer_offsets-0", TRANSACTION_KEY, TRANSACTION_VALUE)
    (record,) = dumped(log, "--decode", "transactions").of_kind("record")
    assert record["decoded"]["key"]["type"] == "TransactionLogKey"
    (record,) = dumped(log, "--decode", "none", "--records").of_kind("record")
    assert "decoded" not in record


def test_a_null_value_deletes(tmp_path):
    log = written(tmp_path / "__consumer_offsets-0", OFFSET_KEY, None)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["decoded"]["value"] is None
    assert printed(log, "--records").output.endswith('"partition": 3}  deleted\n')


def test_the_members_of_a_classic_group_are_decoded_too(tmp_path):
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"\0")
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartitions(topic="t", partitions=[0, 2])
        ]
    )
    # A version that is newer than what is known begins with the fields that are.
    newer = pack(">h", 9) + encode_bytes(assignment, 3) + b"more"
    log = group(tmp_path, pack(">h", 1) + encode_bytes(subscription, 1), newer)
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


@pytest.mark.parametrize("stored", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1not at all"])
def test_what_members_told_each_other_may_be_anything(tmp_path, stored):
    facts = dumped(group(tmp_path, stored, stored), "--records", "--verify")
    assert facts.exit_code == 0


def group(tmp_path, subscription, assignment):
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
    key = encode_part(GroupMetadataKey(group="g"), 2)
    return written(tmp_path / "__consumer_offsets-0", key, encode_part(value, 3))


def test_kinds_of_newer_brokers_stay_bytes(tmp_path):
    log = written(tmp_path / "__consumer_offsets-0", b"\0\x63newer", b"\0\0newer")
    facts = dumped(log, "--records", "--verify")
    assert facts.of_kind("record")[0]["decoded"] is None
    assert facts.exit_code == 0


def test_values_of_newer_brokers_stay_bytes(tmp_path):
    log = written(tmp_path / "__consumer_offsets-0", OFFSET_KEY, b"\0\x63\x80")
    facts = dumped(log, "--records", "--verify")
    assert facts.of_kind("record")[0]["decoded"]["value"] == {
        "type": "OffsetCommitValue",
        "version": 99,
        "bytes": {"base64": "AGOA"},
    }
    assert facts.exit_code == 0


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
def test_a_record_that_cannot_be_decoded_is_damage_and_is_told(tmp_path, key, value):
    log = written(tmp_path / "__consumer_offsets-0", key, value)
    facts = dumped(log, "--records")
    assert "decoded" not in facts.of_kind("record")[0]
    ((_, position, why),) = facts.damages
    assert position == 0
    assert why.startswith("record 0: ")
    assert dumped(log, "--verify").exit_code == 1


def test_control_records_of_kraft_are_decoded(tmp_path):
    value = LeaderChangeMessage(version=0, leader_id=3, voters=[], granting_voters=[])
    key = pack(">hh", 0, 2)
    log = written(tmp_path, key, encode_bytes(value, 0), is_control=True)
    (record,) = dumped(log, "--records").of_kind("record")
    assert record["control"] == {
        "type": "leader_change",
        "value": {"version": 0, "leader_id": 3, "voters": [], "granting_voters": []},
    }


def test_transactions_that_kafka_wrote_are_decoded(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    facts = dumped(*sorted((tmp_path / LEFT).glob("__transaction_state-*")), "--records")
    told = [record["decoded"] for record in facts.of_kind("record")]
    assert len(told) > 10
    assert {each["key"]["type"] for each in told} == {"TransactionLogKey"}
    statuses = {each["value"]["fields"]["transaction_status"] for each in told}
    assert {"Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"} <= statuses
