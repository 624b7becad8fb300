"""``content=transactions``: the records of ``__transaction_state``."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from tests.support.internal_topics import (
    NOW_MS,
    TRANSACTION_STATE,
    InternalLog,
    transaction_key,
    transaction_value,
)
from tests.support.recorded_directories import LEFT, RecordedDirectory
from tests.support.recorded_transactions import (
    STATE_PARTITIONS,
    recorded_transactions,
    records_of,
)
from tests.support.scans import Scanned

RECORDED = {recording.release: recording for recording in recorded_transactions()}
STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)


@pytest.fixture
def scan(tmp_path):
    return lambda **options: Scanned(str(tmp_path), content="transactions", **options)


@pytest.fixture(params=RECORDED)
def recorded(request, tmp_path):
    """Records that Kafka wrote, in the same partitions."""
    recorded = RECORDED[request.param]
    logs = [InternalLog(tmp_path, TRANSACTION_STATE, number) for number in range(STATE_PARTITIONS)]
    for record in recorded.records:
        value = None if record.value is None else bytes.fromhex(record.value)
        logs[record.partition].put(bytes.fromhex(record.key), value)
    return recorded


def expected_row(record):
    """Return the row of a recorded record, as decoded by Kafka's own classes."""
    fields = record.shown_value or {}
    is_present = record.value is not None
    return {
        "recordType": "TransactionLog",
        "transactionalId": record.shown_key["transactionalId"],
        "state": STATES[fields["transactionStatus"]] if is_present else None,
        "producerId": fields.get("producerId"),
        "producerEpoch": fields.get("producerEpoch"),
        "previousProducerId": none_if_negative(fields.get("previousProducerId", -1)),
        "nextProducerId": none_if_negative(fields.get("nextProducerId", -1)),
        "timeoutMs": fields.get("transactionTimeoutMs"),
        "partitions": [
            {"topic": topic["topic"], "partition": partition}
            for topic in fields["transactionPartitions"] or ()
            for partition in topic["partitionIds"]
        ]
        if is_present
        else None,
        "startTimestamp": none_if_negative(fields.get("transactionStartTimestampMs", -1)),
        "lastUpdateTimestamp": none_if_negative(fields.get("transactionLastUpdateTimestampMs", -1)),
        "clientTransactionVersion": fields.get("clientTransactionVersion", 0)
        if is_present
        else None,
        "deleted": not is_present,
    }


def none_if_negative(number):
    return None if number < 0 else number


def without_log_position(row):
    return {name: cell for name, cell in row.items() if name not in LOG_POSITION}


LOG_POSITION = {"logPartition", "logOffset", "logTimestamp", "segment"}


def test_rows_match_what_kafka_decodes(recorded, scan):
    scanned = scan(mode="FAILFAST")
    in_order = sorted(recorded.records, key=lambda record: record.partition)
    assert [without_log_position(row) for row in scanned.rows] == [
        expected_row(record) for record in in_order
    ]
    assert {row["deleted"] for row in scanned.rows} == {True, False}


def test_transactional_id_is_read_from_one_partition(recorded, scan, tmp_path):
    ids = {record.shown_key["transactionalId"]: record.partition for record in recorded.records}
    for transactional_id, partition in ids.items():
        rows = scan(transactionalId=transactional_id, mode="FAILFAST").rows
        expected = [expected_row(record) for record in recorded.records]
        matching = [row for row in expected if row["transactionalId"] == transactional_id]
        assert [without_log_position(row) for row in rows] == matching
        assert {row["logPartition"] for row in rows} == {partition}
    assert len(set(ids.values())) > 1
    log = next(path for path in tmp_path.glob("*-*/*.log") if not path.match(f"*-{partition}/*"))
    log.write_bytes(b"damage" * 100)
    assert scan(transactionalId=transactional_id, mode="FAILFAST").rows
    assert scan().damages


def test_directory_that_kafka_wrote_is_read_to_its_end(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    expected = records_of(tmp_path / LEFT)
    rows = Scanned(str(tmp_path / LEFT), content="transactions", mode="FAILFAST").rows
    assert len(rows) == len(expected) > 0
    for row, record in zip(rows, expected, strict=True):
        assert transaction_key(row["transactionalId"]) == record.key
        assert row["deleted"] is (record.value is None)


def test_unknown_state_is_shown_by_its_number(tmp_path, scan):
    log = InternalLog(tmp_path, TRANSACTION_STATE)
    log.put(transaction_key("t"), transaction_value(1, 1, {"orders": [0, 2]}))
    log.put(transaction_key("t"), transaction_value(1, 77, {}))
    rows = scan(columns="state,partitions,startTimestamp", mode="FAILFAST").rows
    assert rows == [
        {
            "state": "Ongoing",
            "partitions": [
                {"topic": "orders", "partition": 0},
                {"topic": "orders", "partition": 2},
            ],
            "startTimestamp": NOW_MS,
        },
        {"state": "77", "partitions": [], "startTimestamp": NOW_MS},
    ]


@pytest.mark.parametrize("value", [b"", b"\x00\x09rest", transaction_value(1, 0)[:-1]])
def test_undecodable_value_is_damage(tmp_path, scan, value):
    log = InternalLog(tmp_path, TRANSACTION_STATE)
    log.put(transaction_key("t"), value)
    log.put(transaction_key("t"), transaction_value(1, 0))
    scanned = scan()
    assert [row["state"] for row in scanned.rows] == ["Empty"]
    assert [damage.first_offset for damage in scanned.damages] == [0]
    with pytest.raises(ScanFailed, match=r"TransactionLogValue|too few"):
        scan(mode="FAILFAST")
    assert [row["transactionalId"] for row in scan(columns="transactionalId").rows] == ["t", "t"]
