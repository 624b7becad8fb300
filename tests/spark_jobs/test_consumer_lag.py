"""The job consumer-lag: compared with a broker, and with constructed commits."""

import time
from collections import Counter, defaultdict

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.types import TopicPartition as Partition
from odradek.spark_jobs.consumer_lag import main
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from tests.support.broker_process import BrokerProcess
from tests.support.internal_topics import (
    CONSUMER_OFFSETS,
    NOW_MS,
    InternalLog,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from tests.support.job_runs import JobRun
from tests.support.live_topics import wait_until
from tests.support.transaction_wire import WireProducer

pytestmark = pytest.mark.usefixtures("spark")

SETTINGS = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "replica.high.watermark.checkpoint.interval.ms=100",
    "log.initial.task.delay.ms=0",
)
TOPICS = ("orders", "events")
PARTITIONS = 2
RECORDS = 100
TIMEOUT_S = 30
MINUTE_MS = 60_000
OFFSETS_COLUMNS = ("group", "topic", "partition", "offset", "records", "commits")


@pytest.fixture
def run(tmp_path):
    return lambda *arguments: JobRun(main, tmp_path / "result.json", *arguments)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker with classic groups, a deleted group, and a group that commits in transactions."""
    data_dir = tmp_path_factory.mktemp("groups") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]
        for created in admin.create_topics(topics).values():
            created.result()
        _send(broker)
        _commit(broker, "shipping", ("orders", 0, 7))
        with WireProducer(broker.address, "copier") as copier:
            _commit_in_transactions(copier)
            for offset in (5, 20, 30):
                _commit(broker, "billing", ("orders", 0, offset), ("orders", 1, offset + 1))
            _commit(broker, "billing", ("events", 1, 33))
            _commit(broker, "gone", ("orders", 0, 3))
            for deleted in admin.delete_consumer_groups(["gone"]).values():
                deleted.result()
            wait_until(lambda: _is_checkpointed(broker))
            yield broker


class TestLiveBroker:
    def test_lag_equals_what_the_broker_reports(self, broker, run):
        job_run = run(broker.data_dir)
        assert job_run.status == 0
        reported = _reported_by_broker(broker, ["billing", "shipping", "copied"])
        assert len(reported) == 5
        lag = job_run.by("lag", "group", "topic", "partition")
        assert {
            partition: (row["currentOffset"], row["logEnd"], row["lag"], _text(row["metadata"]))
            for partition, row in lag.items()
        } == reported
        now_ms = time.time() * 1000
        assert all(now_ms - 10 * MINUTE_MS < row["commitTime"] <= now_ms for row in lag.values())
        sums = defaultdict(int)
        for (group, _, _), (_, _, partition_lag, _) in reported.items():
            sums[group] += partition_lag
        assert {row["group"]: row["lag"] for row in job_run.table("groups")} == sums
        assert [row["lag"] for row in job_run.table("groups")] == sorted(
            sums.values(), reverse=True
        )

        commits = Counter()
        for row in job_run.table("offsets"):
            commits[row["group"], row["topic"]] += row["commits"]
        assert commits == {
            ("billing", "orders"): 6,
            ("billing", "events"): 1,
            ("shipping", "orders"): 1,
            ("copied", "orders"): 2,  # without the aborted commit and the open one
            ("gone", "orders"): 1,
        }


def _send(broker):
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(RECORDS):
        for topic in TOPICS:
            producer.produce(topic, b"%d" % number, partition=number % 3 % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def _commit(broker, group, *offsets):
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    partitions = [
        TopicPartition(topic, partition, offset, metadata=f"at {offset}")
        for topic, partition, offset in offsets
    ]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def _commit_in_transactions(copier):
    """Commit 10 and 20, abort 30, and leave 40 open."""
    copier.init()
    for offset in (10, 20):
        copier.commit_offset("copied", "orders", offset)
        copier.commit()
    copier.commit_offset("copied", "orders", 30)
    copier.abort()
    copier.commit_offset("copied", "orders", 40)


def _reported_by_broker(broker, groups):
    """Return the committed offset, log end offset, lag and metadata that the broker reports."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "looks"})
    reported = {}
    for group in groups:
        futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for partition in futures[group].result().topic_partitions:
            _, end = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
            reported[group, partition.topic, partition.partition] = (
                partition.offset,
                end,
                end - partition.offset,
                partition.metadata or "",
            )
    consumer.close()
    return reported


def _text(metadata):
    """confluent-kafka commits metadata with C's trailing zero byte and hides it when it reads."""
    return metadata.removesuffix("\0")


def _is_checkpointed(broker):
    """Return whether the high watermarks on disk have reached those that consumers see."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "looks"})
    checkpoint = HIGH_WATERMARKS.read(broker.data_dir)
    try:
        return all(
            checkpoint.get(Partition(topic, partition), 0)
            >= consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)[
                1
            ]
            for topic in (*TOPICS, CONSUMER_OFFSETS)
            for partition in range(PARTITIONS)
        )
    finally:
        consumer.close()


class TestConstructedCommits:
    @pytest.fixture
    def log(self, tmp_path):
        """In minutes 0 to 3, g advances by 5, 10 and 20 in t-0 and moves back in t-1."""
        data = InternalLog(tmp_path / "logs", "t", 0)
        for _ in range(50):
            data.put(None, b"value")
        log = InternalLog(tmp_path / "logs", CONSUMER_OFFSETS)
        for minute, offset in ((0, 5), (0, 10), (1, 20), (3, 40)):
            self.put(log, "g", 0, offset, minute)
        for minute, offset in ((0, 100), (2, 90)):
            self.put(log, "g", 1, offset, minute)
        return log

    def put(self, log, group, partition, offset, minute, **more):
        committed_ms = NOW_MS + minute * MINUTE_MS
        value = offset_value(offset, committed_ms=committed_ms)
        log.put(offset_key(group, "t", partition), value, **more)

    def test_history_of_one_group_is_divided_into_buckets(self, log, tmp_path, run):
        """The selection ends before minute 4."""
        self.put(log, "another", 0, 50, 1)
        self.put(log, "g", 0, 50, 4)
        until = ("--ending-timestamp", NOW_MS + 4 * MINUTE_MS)
        job_run = run(tmp_path / "logs", "--group", "g", "--bucket", "1m", *until)
        assert {
            partition: row["currentOffset"]
            for partition, row in job_run.by("lag", "partition").items()
        } == {
            0: 50,
            1: 90,
        }
        start = NOW_MS // MINUTE_MS * MINUTE_MS
        assert [
            ((row["start"] - start) // MINUTE_MS, *(row[name] for name in OFFSETS_COLUMNS))
            for row in job_run.table("offsets")
        ] == [
            (0, "g", "t", 0, 10, None, 2),
            (1, "g", "t", 0, 20, 10, 1),
            (3, "g", "t", 0, 40, 20, 1),
            (0, "g", "t", 1, 100, None, 1),
            (2, "g", "t", 1, 90, -10, 1),
        ]
        assert [
            ((row["start"] - start) // MINUTE_MS, row["commits"], row["records"])
            for row in job_run.table("commits")
        ] == [(0, 3, 0), (1, 1, 10), (2, 1, -10), (3, 1, 20)]
        rates = [row["commitsPerSecond"] for row in job_run.table("commits")]
        assert rates == pytest.approx([3 / 60, 1 / 60, 1 / 60, 1 / 60])

    def test_deleted_commits_are_not_shown_and_damage_is_reported(self, log, tmp_path, run):
        self.put(log, "deleted", 0, 7, 0)
        log.put(offset_key("deleted", "t", 0), None)
        self.put(log, "back", 0, 7, 0)
        log.put(offset_key("back", "t", 0), None)
        self.put(log, "back", 0, 8, 0)
        key = offset_key("expired", "t", 0)
        log.put(key, offset_value(1, version=1, expires_ms=NOW_MS + 1))
        # A tombstone also removes a pending commit; a later plain commit stays.
        self.put(log, "pending", 0, 1, 0, producer_id=1)
        log.put(offset_key("pending", "t", 0), None)
        self.put(log, "overtaken", 0, 1, 0, producer_id=1)
        self.put(log, "overtaken", 0, 2, 0)
        log.mark(1, is_commit=True)
        self.put(log, "aborted", 0, 1, 0, producer_id=1)
        log.mark(1, is_commit=False)
        self.put(log, "open", 0, 1, 0, producer_id=1)
        log.put(group_key("g"), group_value(1))
        log.put(b"\x00\x63newer", b"newer")
        log.put(offset_key("g", "t", 0), b"\x00\x09not known")
        job_run = run(tmp_path / "logs", "--as-of", NOW_MS + 1, "--mode", "permissive")
        assert {
            (row["group"], row["partition"]): (row["currentOffset"], row["logEnd"], row["lag"])
            for row in job_run.table("lag")
        } == {
            ("g", 0): (40, 50, 10),
            ("g", 1): (90, None, None),
            ("back", 0): (8, 50, 42),
            ("overtaken", 0): (2, 50, 48),
        }
        assert job_run.status == 1
        (damage,) = job_run.table("damage")
        assert "OffsetCommitValue has no version 9" in damage["reason"]
        assert damage["firstOffset"] == log.end_offset - 1

    def test_page_has_the_charts(self, log, tmp_path):
        to = tmp_path / "lag.html"
        arguments = ["--output", "html", "--to", str(to), "--mode", "failfast"]
        assert main([str(tmp_path / "logs"), *arguments]) == 0
        page = to.read_text()
        assert "Committed offsets" in page
        assert page.count("<figure>") == 4

    def test_offset_options_are_rejected(self, log, tmp_path, capsys):
        arguments = ["--starting-offsets", '{"t": {"0": 1}}']
        assert main([str(tmp_path / "logs"), *arguments]) == 1
        error = "startingOffsets: cannot be set, since a group's last commits"
        assert error in capsys.readouterr().err

    def test_unknown_names_are_reported(self, log, tmp_path, capsys):
        """A topic is known if it exists or has committed offsets."""
        path = str(tmp_path / "logs")
        InternalLog(tmp_path / "logs", "unread")
        for arguments, line in (
            (("--topics", "unread,tt"), f"tt: not in {path}; set failOnDataLoss"),
            (("--assign", '{"t": [1, 2]}'), f"t-2: not in {path}; set failOnDataLoss"),
            (("--group", "gg", "--mode", "failfast"), f"gg: no such group in {path}; failOnData"),
        ):
            assert main([path, *arguments]) == 1
            last = capsys.readouterr().err.splitlines()[-1]
            assert last.startswith(f"odradek consumer-lag: {line}")
        lenient = ["--topics", "tt", "--group", "gg", "--fail-on-data-loss", "false"]
        assert main([path, *lenient, "--mode", "dropmalformed", "--output", "json"]) == 0
        assert capsys.readouterr().out == ""
