"""The job transaction-report: compared with a broker, and on a directory of Kafka."""

import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import product

import pytest

from odradek.protocol.internal.transaction_log import TRANSACTION_STATE_NAMES
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.transaction_report import main
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from tests.support.broker_process import BrokerProcess
from tests.support.command_line import CommandLine
from tests.support.internal_topics import (
    NOW_MS,
    TRANSACTION_STATE,
    InternalLog,
    transaction_key,
    transaction_value,
)
from tests.support.job_runs import JobRun
from tests.support.live_topics import wait_until
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.recorded_directories import RECOVERED, RecordedDirectory
from tests.support.recorded_transactions import records_of
from tests.support.transaction_wire import WireProducer

pytestmark = pytest.mark.usefixtures("spark")

MINUTE_MS = 60_000
LATEST = -1  # as a timestamp
SETTINGS = (
    "transaction.state.log.num.partitions=2",
    "replica.high.watermark.checkpoint.interval.ms=100",
    "log.initial.task.delay.ms=0",
    # Allows a transaction that its coordinator does not know, as before Kafka 3.6.
    "transaction.partition.verification.enable=false",
)


@pytest.fixture
def run(tmp_path):
    return lambda *arguments: JobRun(main, tmp_path / "result.json", *arguments)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One id commits and aborts, one has an open transaction, one hangs for 20 minutes."""
    data_dir = tmp_path_factory.mktemp("transactions") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as broker, ExitStack() as stack:
        create_topic(broker.address, "events", partitions=2)
        busy, still_open, hanging = (
            stack.enter_context(WireProducer(broker.address, name))
            for name in ("busy", "open", "hanging")
        )
        for producer in (busy, still_open, hanging):
            producer.init()
        for end in (busy.commit, busy.abort, busy.commit):
            busy.write("events", b"a", b"b")
            busy.write("events", b"c", partition=1)
            end()
        still_open.write("events", b"1", b"2", b"3", partition=1)
        then_ms = int(time.time() * 1000) - 20 * MINUTE_MS
        assert hanging.ask_produce("events", b"1", timestamp_ms=then_ms) == "NONE"
        wait_until(lambda: _is_checkpointed(broker))
        yield broker


class TestLiveBroker:
    def test_report_agrees_with_the_broker(self, broker, run, capsys, monkeypatch):
        command = CommandLine(capsys, monkeypatch, broker.address)
        described = command("transactions", "describe-producers", "events:0,1", "--json").objects
        listed = command("transactions", "list", "--json").objects
        job_run = run(broker.data_dir)
        assert job_run.status == 0
        open_ = job_run.by("open", "topic", "partition", "producerId")
        assert {key: row["firstOffset"] for key, row in open_.items()} == {
            (row["topic"], row["partition"], row["producer"]): row["start_offset"]
            for row in described
            if row["start_offset"] is not None
        }
        assert {row["transactionalId"]: row["state"] for row in job_run.table("ids")} == {
            row["transactional_id"]: row["state"] for row in listed
        }
        by_name = {row["transactionalId"]: row for row in open_.values()}
        assert {name: (row["hangs"], row["records"]) for name, row in by_name.items()} == {
            "open": (False, 3),
            "hanging": (True, 1),
        }
        (long,) = job_run.table("long")
        assert (long["transactionalId"], long["outcome"]) == ("hanging", "open")
        assert 20 * MINUTE_MS <= long["durationMs"] < 30 * MINUTE_MS
        aborted = job_run.by("aborted", "topic", "partition")
        assert {
            key: (row["transactionalId"], row["aborted"], row["records"])
            for key, row in aborted.items()
        } == {("events", 0): ("busy", 1, 2), ("events", 1): ("busy", 1, 1)}
        (topic,) = job_run.table("topics")
        assert (topic["committed"], topic["aborted"], topic["open"]) == (4, 2, 2)

    def test_page_of_one_id_has_the_charts(self, broker, tmp_path):
        to = tmp_path / "busy.html"
        arguments = ["--transactional-id", "busy", "--output", "html", "--to", str(to)]
        assert main([str(broker.data_dir), *arguments, "--mode", "failfast"]) == 0
        page = to.read_text()
        assert page.count("<figure>") == 2
        assert "events-1 by busy" in page
        assert "hanging" not in page


def _is_checkpointed(broker):
    checkpoint = HIGH_WATERMARKS.read(broker.data_dir)
    for topic, partition in product(("events", TRANSACTION_STATE), range(2)):
        with PartitionClient(broker.address, topic, partition) as client:
            if checkpoint.get(TopicPartition(topic, partition), 0) < client.offset_at(LATEST):
                return False
    return True


class TestDirectoryOfKafka:
    def test_report_agrees_with_the_recording(self, tmp_path, run):
        recorded = RecordedDirectory.unpack("transactions-stopped", tmp_path)
        path = tmp_path / RECOVERED
        job_run = run(path, "--as-of", recorded.recorded_at_ms)
        assert job_run.status == 0
        assert {
            (row["topic"], row["partition"], row["producerId"]): row["firstOffset"]
            for row in job_run.table("open")
        } == {
            (
                partition.topic,
                partition.partition,
                producer.producer_id,
            ): producer.transaction_first_offset
            for partition in recorded.partitions
            for producer in partition.producers
            if producer.transaction_first_offset >= 0
        }
        counts, amounts = _aborted(path, recorded)
        rows = job_run.by("aborted", "topic", "partition", "producerId")
        assert {key: row["aborted"] for key, row in rows.items()} == counts
        assert {key: [row["records"], row["diskBytes"]] for key, row in rows.items()} == amounts
        assert sum(counts.values()) > 0
        states = {row["transactionalId"]: row["state"] for row in job_run.table("ids")}
        assert states == _last_states(path)


def _last_states(path):
    """Return the last state of each transactional id without a tombstone."""
    values = {record.key: record.value for record in records_of(path)}
    # Version, producer id, epoch and timeout precede the state.
    return {
        key[4:].decode(): TRANSACTION_STATE_NAMES[value[16]]
        for key, value in values.items()
        if value is not None
    }


def _aborted(path, recorded):
    """Count the aborted transactions in the indexes, and the records and bytes of their batches."""
    counts, amounts = Counter(), defaultdict(lambda: [0, 0])
    for partition in recorded.partitions:
        for entry in partition.aborted:
            key = (partition.topic, partition.partition, entry.producer_id)
            counts[key] += 1
            for batch in _batches(path / partition.name):
                is_own = batch.producer_id == entry.producer_id and batch.is_transactional
                if is_own and entry.first_offset <= batch.base_offset < entry.last_offset:
                    amounts[key][0] += batch.count
                    amounts[key][1] += batch.size_bytes
    return counts, amounts


def _batches(partition):
    for path in sorted(partition.glob("*.log")):
        yield from batches_of_any_magic(path.read_bytes())


class TestConstructedTransactions:
    @pytest.fixture
    def logs(self, tmp_path):
        """Producer 1 needs 30 s and 90 s, and has had a transaction open for 2 minutes."""
        data = InternalLog(tmp_path / "logs", "t")
        for seconds, is_commit in ((30, True), (90, False)):
            data.put(None, b"value", producer_id=1, timestamp=NOW_MS - seconds * 1000)
            data.mark(1, is_commit=is_commit)
        data.put(None, b"value", producer_id=1, timestamp=NOW_MS - 120_000)
        data.put(None, b"value")
        return InternalLog(tmp_path / "logs", TRANSACTION_STATE)

    def test_long_transactions_are_listed_and_undecodable_records_reported(
        self, logs, tmp_path, run
    ):
        logs.put(transaction_key("a"), transaction_value(9, 1, {"t": [0]}, started_ms=NOW_MS - 5))
        logs.put(transaction_key("b"), b"\x00\x09not known")
        logs.put(transaction_key("c"), transaction_value(2, 4, {}))
        logs.put(transaction_key("c"), None)
        arguments = ("--as-of", NOW_MS, "--longer-than", "31s", "--topics", "t")
        job_run = run(tmp_path / "logs", *arguments, "--mode", "permissive")
        assert [
            (row["outcome"], row["durationMs"], row["firstOffset"], row["records"])
            for row in job_run.table("long")
        ] == [("open", 120_000, 4, 1), ("abort", 90_000, 2, 1)]
        (row,) = job_run.table("open")
        assert (row["since"], row["openMs"], row["hangs"]) == (NOW_MS - 120_000, 120_000, None)
        (row,) = job_run.table("ids")
        assert (row["transactionalId"], row["state"], row["openMs"]) == ("a", "Ongoing", 5)
        assert row["partitions"] == ["t-0"]
        (unreadable,) = job_run.table("unreadable")
        assert (unreadable["firstOffset"], job_run.status) == (1, 1)

    def test_transaction_is_hanging_if_its_id_does_not_include_it_or_is_unknown(
        self, tmp_path, run
    ):
        data = InternalLog(tmp_path / "logs", "t")
        states = InternalLog(tmp_path / "logs", TRANSACTION_STATE)
        for producer_id, (name, partitions) in enumerate(
            [("busy here", [0, 1]), ("busy elsewhere", [1]), (None, [])]
        ):
            data.put(None, b"value", producer_id=producer_id)
            if name is not None:
                value = transaction_value(producer_id, 1, {"t": partitions})
                states.put(transaction_key(name), value)
        rows = run(tmp_path / "logs", "--as-of", NOW_MS, "--topics", "t").table("open")
        assert {(row["transactionalId"], row["hangs"]) for row in rows} == {
            ("busy here", False),
            ("busy elsewhere", True),
            (None, True),
        }

    def test_hanging_is_unknown_without_the_states_of_all_ids(self, tmp_path, run):
        InternalLog(tmp_path / "logs", "t").put(None, b"value", producer_id=1)
        InternalLog(tmp_path / "logs", TRANSACTION_STATE, 7)
        (row,) = run(tmp_path / "logs", "--as-of", NOW_MS, "--topics", "t").table("open")
        assert row["hangs"] is None

    def test_unknown_transactional_id_is_reported(self, logs, tmp_path, capsys):
        logs.put(transaction_key("a"), transaction_value(9, 1, {"t": [0]}))
        arguments = ["--transactional-id", "aa", "--mode", "failfast"]
        assert main([str(tmp_path / "logs"), *arguments]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        line = f"aa: no such transactional id in {tmp_path / 'logs'}; failOnDataLoss"
        assert last.startswith(f"odradek transaction-report: {line}")
