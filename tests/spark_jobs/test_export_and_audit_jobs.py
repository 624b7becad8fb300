"""The jobs integrity-audit, export and restore in Spark."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from odradek.spark_jobs import export, integrity_audit, restore
from tests.support.audits import WrittenLog, flip
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.exports import rows_in
from tests.support.restored_topics import (
    TIMEOUT_S,
    consumed,
    create,
    rows_of_all_kinds,
    send,
)
from tests.support.scans import LogDirectory, Scanned

pytestmark = pytest.mark.usefixtures("spark")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestAudit:
    def run(self, tmp_path, *arguments):
        report = tmp_path / "report.jsonl"
        status = integrity_audit.main(
            [*map(str, arguments), "--output", "json", "--to", str(report)]
        )
        rows = lines(report)
        return status, [row for row in rows if row["table"] == "findings"], rows

    def test_intact_directories_have_no_findings(self, tmp_path):
        written_log = WrittenLog(tmp_path / "1")
        shutil.copytree(tmp_path / "1", tmp_path / "2")
        status, findings, rows = self.run(tmp_path, tmp_path / "1", tmp_path / "2")
        assert (status, findings) == (0, [])
        assert [(row["directory"], row["endOffset"], row["findings"]) for row in rows] == [
            (f"{tmp_path}/{name}/events-0", written_log.end_offset, 0) for name in ("1", "2")
        ]

    def test_damage_is_a_row_and_exits_with_1(self, tmp_path):
        written_log = WrittenLog(tmp_path / "1")
        batch = written_log.batches(written_log.logs[1])[2]
        flip(written_log.logs[1], batch.position + batch.size - 1)
        status, (finding,), _ = self.run(tmp_path, tmp_path / "1")
        assert status == 1
        assert finding.pop("what").startswith("the checksum")
        assert finding == {
            "table": "findings",
            "severity": "error",
            "topic": "events",
            "partition": 0,
            "file": str(written_log.logs[1]),
            "position": batch.position,
            "offset": batch.base_offset,
        }

    @pytest.mark.parametrize("job", [integrity_audit, export])
    def test_empty_selection_is_an_error(self, tmp_path, capsys, job):
        WrittenLog(tmp_path / "1")
        into = ["--into", str(tmp_path / "export")] if job is export else []
        assert job.main([str(tmp_path / "1"), "--topics", "evnets,events", *into]) == 1
        assert f"evnets: not in {tmp_path / '1'}; set failOnDataLoss" in capsys.readouterr().err
        assert job.main([str(tmp_path / "1"), "--topics-pattern", "evnets", *into]) == 1
        error = "no partition in these directories matches the selection"
        assert error in capsys.readouterr().err

    def test_page_lists_the_findings(self, tmp_path):
        written_log = WrittenLog(tmp_path / "1")
        written_log.files(".index")[0].unlink()
        page = tmp_path / "audit.html"
        arguments = [str(tmp_path / "1"), "--output", "html", "--to", str(page)]
        assert integrity_audit.main(arguments) == 1
        text = page.read_text()
        assert "00000000000000000000.index" in text
        assert "<svg" in text

    def test_partial_partitions_are_rejected(self, tmp_path, capsys):
        WrittenLog(tmp_path / "1")
        status = integrity_audit.main([str(tmp_path / "1"), "--starting-timestamp", "0"])
        assert status == 1
        error = "--starting-timestamp: not supported: an audit reads whole partitions"
        assert error in capsys.readouterr().err


class TestExport:
    def test_damage_is_reported_and_the_rest_is_exported(self, tmp_path):
        directory = LogDirectory(tmp_path / "logs")
        batches = [bytearray(batch_of(b"v" * 40, base_offset=offset)) for offset in range(4)]
        batches[2][-3] ^= 0xFF
        directory.write(0, batches)
        target, report = tmp_path / "export", tmp_path / "report"
        report.mkdir()
        arguments = [str(directory.path), "--into", str(target), "--output", "parquet"]
        assert export.main([*arguments, "--to", str(report)]) == 1
        assert [row["offset"] for row in rows_in(target)] == [0, 1, 3]
        (row,) = pq.read_table(report / "partitions.parquet").to_pylist()
        assert (row["records"], row["endOffset"]) == (3, 4)
        (damage,) = pq.read_table(report / "damage.parquet").to_pylist()
        assert f"bytes {2 * len(batches[0])} to" in damage["damage"]

    def test_failfast_leaves_no_export(self, tmp_path, capsys):
        directory = LogDirectory(tmp_path / "logs")
        damaged = bytearray(batch_of(b"v" * 40))
        damaged[-3] ^= 0xFF
        directory.write(0, [damaged, batch_of(b"w", base_offset=1)])
        arguments = [str(directory.path), "--into", str(tmp_path / "export")]
        assert export.main([*arguments, "--mode", "failfast"]) == 1
        assert "the checksum does not match the bytes" in capsys.readouterr().err
        assert not (tmp_path / "export" / "_export.json").exists()
        assert export.main([*arguments, "--mode", "dropmalformed"]) == 0
        assert [row["offset"] for row in rows_in(tmp_path / "export")] == [1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A running broker with records of all kinds and transactions."""
    settings = ("log.retention.ms=-1", "log.segment.bytes=4096")
    with BrokerProcess(tmp_path_factory.mktemp("jobs") / "logs", *settings).start() as broker:
        create(broker, "orders")
        client = {"bootstrap.servers": broker.address, "compression.type": "gzip"}
        send(Producer(client), "orders", rows_of_all_kinds(300))
        producer = Producer({**client, "transactional.id": "jobs"})
        producer.init_transactions(TIMEOUT_S)
        for end in (producer.commit_transaction, producer.abort_transaction) * 2:
            producer.begin_transaction()
            send(producer, "orders", rows_of_all_kinds(20))
            end(TIMEOUT_S)
        yield broker


def test_logs_of_a_running_broker_have_no_findings(broker):
    assert integrity_audit.main([str(broker.data_dir)]) == 0


def test_exports_of_a_running_broker_are_restored_to_another_topic(broker, tmp_path, capsys):
    """The second export starts where the first ends; neither has aborted records."""
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    export_arguments = [str(broker.data_dir), "--topics", "orders", "--ignore-high-watermark"]
    ends = json.dumps({"orders": {"0": 50, "2": 0}})
    assert export.main([*export_arguments, "--into", first, "--ending-offsets", ends]) == 0
    assert export.main([*export_arguments, "--into", second, "--since-export", first]) == 0
    restore_arguments = [
        first,
        second,
        "--bootstrap-server",
        broker.address,
        "--rename",
        "orders=again",
    ]
    assert restore.main(restore_arguments) == 1
    assert "topic again does not exist: use --create to create it" in capsys.readouterr().err
    creation_arguments = [
        "--create",
        "--replication-factor",
        "1",
        "--property",
        "compression.type=zstd",
    ]
    assert restore.main([*restore_arguments, *creation_arguments]) == 0
    before = consumed(broker, "orders")
    assert consumed(broker, "again") == before
    assert [len(rows) for rows in before.values()] == [170, 0, 170]
    assert restore.main(restore_arguments) == 1
    assert "again-0 has records: --resume" in capsys.readouterr().err
    batches = Scanned(
        str(broker.data_dir), topics="again", view="batches", ignoreHighWatermark="true"
    )
    # librdkafka leaves a batch uncompressed if compression does not make it smaller.
    assert {"zstd"} <= {row["codec"] for row in batches.rows} <= {"zstd", "none"}
