"""``content=transactions``: what coordinators wrote into ``__transaction_state``."""

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

RECORDED = {each.release: each for each in recorded_transactions()}
STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)


@pytest.fixture
def scan(tmp_path):
    return lambda **options: Scanned(str(tmp_path), content="transactions", **options)


@pytest.fixture(params=RECORDED)
def recorded(request, tmp_path):
    """What Kafka wrote, in as many partitions as it had."""
    recorded = RECORDED[request.param]
    logs = [InternalLog(tmp_path, TRANSACTION_STATE, at) for at in range(STATE_PARTITIONS)]
    for each in recorded.records:
        value = None if each.value is None else bytes.fromhex(each.value)
        logs[each.partition].put(bytes.fromhex(each.key), value)
    return recorded


def expected(each):
    """The row of a recorded record, by what Kafka's own classes read in it."""
    shown = each.shown_value or {}
    known = each.value is not None
    return {
        "recordType": "TransactionLog",
        "transactionalId": each.shown_key["transactionalId"],
        "state": STATES[shown["transactionStatus"]] if known else None,
        "producerId": shown.get("producerId"),
        "producerEpoch": shown.get("producerEpoch"),
        "previousProducerId": given(shown.get("previousProducerId", -1)),
        "nextProducerId": given(shown.get("nextProducerId", -1)),
        "timeoutMs": shown.get("transactionTimeoutMs"),
        "partitions": [
            {"topic": topic["topic"], "partition": partition}
            for topic in shown["transactionPartitions"] or ()
            for partition in topic["partitionIds"]
        ]
        if known
        else None,
        "startTimestamp": given(shown.get("transactionStartTimestampMs", -1)),
        "lastUpdateTimestamp": given(shown.get("transactionLastUpdateTimestampMs", -1)),
        "clientTransactionVersion": shown.get("clientTransactionVersion", 0) if known else None,
        "deleted": not known,
    }


def given(number):
    return None if number < 0 else number


def without_place(row):
    return {name: cell for name, cell in row.items() if name not in PLACE}


PLACE = {"logPartition", "logOffset", "logTimestamp", "segment"}


def test_rows_say_what_kafka_reads_in_its_records(recorded, scan):
    found = scan(mode="FAILFAST")
    in_order = sorted(recorded.records, key=lambda each: each.partition)
    assert [without_place(row) for row in found.rows] == [expected(each) for each in in_order]
    assert {row["deleted"] for row in found.rows} == {True, False}


def test_one_transactional_id_is_read_from_one_partition(recorded, scan, tmp_path):
    ids = {each.shown_key["transactionalId"]: each.partition for each in recorded.records}
    for transactional_id, home in ids.items():
        rows = scan(transactionalId=transactional_id, mode="FAILFAST").rows
        wanted = [expected(each) for each in recorded.records]
        own = [row for row in wanted if row["transactionalId"] == transactional_id]
        assert [without_place(row) for row in rows] == own
        assert {row["logPartition"] for row in rows} == {home}
    assert len(set(ids.values())) > 1
    log = next(path for path in tmp_path.glob("*-*/*.log") if not path.match(f"*-{home}/*"))
    log.write_bytes(b"damage" * 100)
    assert scan(transactionalId=transactional_id, mode="FAILFAST").rows
    assert scan().damages


def test_a_directory_that_kafka_left_is_read_to_its_end(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    written = records_of(tmp_path / LEFT)
    rows = Scanned(str(tmp_path / LEFT), content="transactions", mode="FAILFAST").rows
    assert len(rows) == len(written) > 0
    for row, record in zip(rows, written, strict=True):
        assert transaction_key(row["transactionalId"]) == record.key
        assert row["deleted"] is (record.value is None)


def test_a_state_that_is_not_known_is_told_by_its_number(tmp_path, scan):
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
def test_a_value_that_cannot_be_read_is_damage(tmp_path, scan, value):
    log = InternalLog(tmp_path, TRANSACTION_STATE)
    log.put(transaction_key("t"), value)
    log.put(transaction_key("t"), transaction_value(1, 0))
    found = scan()
    assert [row["state"] for row in found.rows] == ["Empty"]
    assert [damage.first_offset for damage in found.damages] == [0]
    with pytest.raises(ScanFailed, match=r"TransactionLogValue|too few"):
        scan(mode="FAILFAST")
    assert [row["transactionalId"] for row in scan(columns="transactionalId").rows] == ["t", "t"]
