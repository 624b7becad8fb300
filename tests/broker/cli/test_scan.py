"""``odradek scan``: the output formats, reports of damage, and missing packages."""

import csv
import io
import json
import subprocess
import sys

import pytest

from odradek.protocol.records.record import Header, Record
from tests.support.batches import batch_of
from tests.support.internal_topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    InternalLog,
    offset_key,
    offset_value,
    transaction_key,
    transaction_value,
)
from tests.support.scans import LogDirectory

RECORDS = [
    Record(0, 1000, b"alice", b"two apples", (Header("unit", b"kg"),)),
    Record(1, 2000, None, b"\xff\xfe", ()),
    Record(2, 3000, b"bob", None, ()),
]


@pytest.fixture
def directory(tmp_path):
    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(record, base_offset=record.offset) for record in RECORDS])
    return directory


def test_json_has_a_line_for_each_record(offline, directory):
    result = offline("scan", directory.path, "--output", "json", "--include-headers")
    assert result.objects == [
        {
            "key": key,
            "value": value,
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "timestamp": 1000 * (offset + 1),
            "timestampType": 0,
            "headers": headers,
        }
        for offset, key, value, headers in (
            (0, "alice", "two apples", [["unit", "kg"]]),
            (1, None, {"base64": "//4="}, None),
            (2, "bob", None, None),
        )
    ]


def test_pipe_gets_tab_separated_rows(offline, directory):
    result = offline("scan", directory.path, "--columns", "offset,key,value", "--limit", "2")
    assert result.lines == [
        "offset\tkey\tvalue",
        "0\talice\ttwo apples",
        r"1" + "\t-\t" + r"\xff\xfe",
    ]


def test_csv_starts_with_the_column_names(offline, directory, tmp_path):
    columns = "offset,valueSize,isTransactional"
    result = offline("scan", directory.path, "--output", "csv", "--columns", columns)
    assert list(csv.reader(io.StringIO(result.out))) == [
        ["offset", "valueSize", "isTransactional"],
        ["0", "10", "false"],
        ["1", "2", "false"],
        ["2", "", "false"],
    ]
    to = tmp_path / "rows.csv"
    offline("scan", directory.path, "--output", "csv", "--columns", columns, "--to", to)
    assert to.read_text() == result.out


def test_parquet_keeps_the_column_types(offline, directory, tmp_path):
    import pyarrow.parquet as pq

    to = tmp_path / "rows.parquet"
    result = offline("scan", directory.path, "--output", "parquet", "--to", to, "--include-headers")
    assert result.lines == []
    rows = pq.read_table(to).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(r.key, r.value) for r in RECORDS]
    assert rows[0]["headers"] == [{"key": "unit", "value": b"kg"}]
    assert rows[0]["timestamp"].timestamp() == 1


def test_parquet_has_one_row_group_for_many_small_segments(offline, tmp_path):
    import pyarrow.parquet as pq

    directory = LogDirectory(tmp_path / "logs")
    for base_offset in range(3):
        directory.write(base_offset, [batch_of(b"small", base_offset=base_offset)])
    to = tmp_path / "rows.parquet"
    offline("scan", directory.path, "--output", "parquet", "--to", to)
    file = pq.ParquetFile(to)
    assert (file.num_row_groups, file.metadata.num_rows) == (1, 3)


def test_parquet_needs_a_file(offline, directory):
    assert "--to" in offline("scan", directory.path, "--output", "parquet").complaint


def test_timestamps_select_records(offline, directory):
    after = offline(
        *("scan", directory.path, "--columns", "offset"),
        *("--starting-timestamp", "1970-01-01T00:00:01.500+00:00"),
    )
    assert after.rows == [["1"], ["2"]]
    before = offline("scan", directory.path, "--columns", "offset", "--ending-timestamp", "2000")
    assert before.rows == [["0"]]


def test_batches_view_has_a_row_for_each_batch(offline, directory):
    result = offline("scan", directory.path, "--view", "batches", "--output", "json")
    assert [row["baseOffset"] for row in result.objects] == [0, 1, 2]


def test_damage_is_reported_and_exits_with_1(offline, directory):
    path = directory.file(0)
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    result = offline("scan", directory.path, "--output", "json")
    assert result.status == 1
    assert [json.loads(line)["offset"] for line in result.out.splitlines()] == [1, 2]
    assert "checksum" in result.err
    assert "offset 0" in result.err
    failed = offline("scan", directory.path, "--mode", "failfast")
    assert (failed.status, len(failed.err.splitlines())) == (1, 1)
    assert offline("scan", directory.path, "--mode", "dropmalformed").status == 0


@pytest.mark.parametrize("arguments", [["/nowhere"], [".", "--columns", "nix"]])
def test_invalid_argument_is_reported_in_one_line(offline, arguments):
    assert offline("scan", *arguments).complaint


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        (("numpy", "pyarrow"), "scan needs numpy and pyarrow: pip install 'odradek[arrow]'"),
        (
            ("crc32c", "crcmod"),
            f"{sys.executable} cannot compute CRC-32C: install the package crc32c or crcmod",
        ),
    ],
)
def test_missing_package_is_reported_with_a_remedy(directory, missing, line):
    """A plain installation has neither numpy nor pyarrow; only this command needs them."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "from odradek.broker.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "scan", str(directory.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"odradek: {line}\n"


class TestContents:
    """Internal topics with decoded records."""

    def test_offsets_of_one_group(self, offline, tmp_path):
        log = InternalLog(tmp_path, CONSUMER_OFFSETS)
        log.put(offset_key("billing", "orders", 3), offset_value(17))
        log.put(offset_key("shipping", "orders", 3), offset_value(18))
        log.put(offset_key("billing", "orders", 3), None)
        columns = ("--columns", "group,topic,partition,offset,deleted")
        result = offline("scan", tmp_path, "--content", "offsets", "--group", "billing", *columns)
        assert result.rows == [
            ["billing", "orders", "3", "17", "false"],
            ["billing", "orders", "3", "-", "true"],
        ]

    def test_transactions_with_their_partitions(self, offline, tmp_path):
        log = InternalLog(tmp_path, TRANSACTION_STATE)
        log.put(transaction_key("copier"), transaction_value(7, 1, {"a": [0, 2], "b": [1]}))
        arguments = ("scan", tmp_path, "--content", "transactions", "--columns", "state,partitions")
        assert offline(*arguments).rows == [["Ongoing", "a-0,a-2,b-1"]]
        assert offline(*arguments, "--output", "json").objects == [
            {
                "state": "Ongoing",
                "partitions": [
                    {"topic": "a", "partition": 0},
                    {"topic": "a", "partition": 2},
                    {"topic": "b", "partition": 1},
                ],
            }
        ]

    def test_undecodable_record_exits_with_1(self, offline, tmp_path):
        log = InternalLog(tmp_path, CONSUMER_OFFSETS)
        log.put(offset_key("billing", "orders", 3), b"\x00\x09")
        result = offline("scan", tmp_path, "--content", "offsets")
        assert result.status == 1
        assert "OffsetCommitValue has no version 9" in result.err
