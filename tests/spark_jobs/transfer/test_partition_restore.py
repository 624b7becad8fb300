"""A consumer reads the same records from a restored topic, in the same order."""

import builtins
import json

import pytest
from confluent_kafka import Producer

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import parse_options
from odradek.spark_jobs.transfer.partition_restore import RestoreMode, restore_partition
from odradek.spark_jobs.transfer.restore_plan import plan_restore
from odradek.spark_jobs.transfer.target_cluster import (
    TargetCluster,
    TopicCreation,
    check_empty,
    ensure_topics,
)
from tests.support.broker_process import BrokerProcess
from tests.support.exports import exported
from tests.support.free_ports import free_port
from tests.support.restored_topics import (
    NOON_MS,
    PARTITIONS,
    consumed,
    create,
    rows_of_all_kinds,
    send,
)

SETTINGS = ("log.retention.ms=-1", "replica.high.watermark.checkpoint.interval.ms=100")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("restored") / "logs", *SETTINGS).start() as broker:
        yield broker


@pytest.fixture(scope="module")
def sent(broker):
    """The records that were sent to the topic."""
    rows = rows_of_all_kinds(500)
    create(broker, "orders")
    send(Producer({"bootstrap.servers": broker.address}), "orders", rows)
    return rows


@pytest.fixture(scope="module")
def export(broker, sent, tmp_path_factory):
    """An export of the running broker, with all acknowledged records."""
    target = tmp_path_factory.mktemp("exports") / "orders"
    exported(broker.data_dir, target, topics="orders", ignoreHighWatermark="true")
    return target


def plan(export, topic, mode=RestoreMode.INTO_EMPTY, **options):
    scan_options = parse_options({"path": str(export), **options})
    return plan_restore(scan_options, {"orders": topic}, mode)


def restore(broker, export, topic, mode=RestoreMode.INTO_EMPTY):
    planned = plan(export, topic, mode)
    settings = {"bootstrap.servers": broker.address}
    target = TargetCluster(settings)
    ensure_topics(target, planned.partitions_by_topic, planned.partition_counts, TopicCreation(1))
    if mode is RestoreMode.INTO_EMPTY:
        check_empty(target, planned.partitions_by_topic)
    return [
        restore_partition(partition, settings, lambda line: None) for partition in planned.restores
    ]


def test_restored_topic_has_the_same_records(broker, sent, export):
    restored = restore(broker, export, "again")
    assert [(partition.partition, partition.records) for partition in restored] == [
        (0, 250),
        (1, 0),
        (2, 250),
    ]
    assert consumed(broker, "again") == sent


def test_several_exports_are_restored_as_one(broker, sent, tmp_path):
    boundary = {"orders": {"0": 100, "2": 30}}
    paths = [tmp_path / "1", tmp_path / "2"]
    common = {"topics": "orders", "ignoreHighWatermark": "true"}
    exported(broker.data_dir, paths[0], endingOffsets=json.dumps(boundary), **common)
    exported(broker.data_dir, paths[1], startingOffsets=json.dumps(boundary), **common)
    restore(broker, f"{paths[0]},{paths[1]}", "in-parts")
    assert consumed(broker, "in-parts") == sent


def test_overlapping_exports_are_rejected(broker, export, tmp_path):
    exported(broker.data_dir, tmp_path / "2", topics="orders", ignoreHighWatermark="true")
    with pytest.raises(ScanFailed, match="orders-0: two exports overlap from offset 0 on"):
        plan(f"{export},{tmp_path / '2'}", "again")


class TestExistingRecords:
    def test_target_with_records_is_rejected(self, broker, export):
        restore(broker, export, "twice")
        with pytest.raises(ScanFailed, match="twice-0 has records"):
            restore(broker, export, "twice")

    def test_append_sends_all_records_after_the_existing_ones(self, broker, sent, export):
        restore(broker, export, "appended")
        restore(broker, export, "appended", RestoreMode.APPEND)
        twice = {partition: rows + rows for partition, rows in sent.items()}
        assert consumed(broker, "appended") == twice

    def test_interrupted_restore_is_resumed(self, broker, sent, export):
        send_first(broker, "resumed", sent, count=77)
        restored = restore(broker, export, "resumed", RestoreMode.RESUME)
        assert [(partition.records, partition.present) for partition in restored] == [
            (173, 77),
            (0, 0),
            (173, 77),
        ]
        assert consumed(broker, "resumed") == sent
        again = restore(broker, export, "resumed", RestoreMode.RESUME)
        assert [(partition.records, partition.present) for partition in again] == [
            (0, 250),
            (0, 0),
            (0, 250),
        ]
        assert consumed(broker, "resumed") == sent

    def test_resume_with_other_records_is_rejected(self, broker, sent, export):
        others = {0: [*sent[0][:9], (b"other", b"other", [], NOON_MS)], 1: [], 2: []}
        send_first(broker, "mixed-up", others, count=10)
        with pytest.raises(
            ScanFailed, match="mixed-up-0 does not contain exactly the first 10 records"
        ):
            restore(broker, export, "mixed-up", RestoreMode.RESUME)


def send_first(broker, topic, records, count):
    """Leave the topic as an interrupted restore does."""
    create(broker, topic)
    first = {partition: rows[:count] for partition, rows in records.items()}
    send(Producer({"bootstrap.servers": broker.address}), topic, first)


class TestTargets:
    def target(self, broker):
        return TargetCluster({"bootstrap.servers": broker.address})

    def test_topic_is_created_with_its_original_number_of_partitions(self, broker, sent, export):
        planned = plan(export, "new", assign='{"orders": [0]}')
        assert planned.partitions_by_topic == {"new": [0]}
        target = self.target(broker)
        creation = TopicCreation(1, {"retention.ms": "-1"})
        ensure_topics(target, planned.partitions_by_topic, planned.partition_counts, creation)
        assert target.partition_counts()["new"] == PARTITIONS

    def test_missing_topic_is_not_created_without_the_option(self, broker, export):
        planned = plan(export, "missing")
        with pytest.raises(ScanFailed, match="topic missing does not exist: use --create"):
            ensure_topics(
                self.target(broker), planned.partitions_by_topic, planned.partition_counts, None
            )

    def test_too_few_partitions_are_rejected(self, broker, export):
        target = self.target(broker)
        target.create_topic("small", 2, TopicCreation(1))
        planned = plan(export, "small")
        with pytest.raises(ScanFailed, match="small has 2 partitions, but 3 are needed"):
            ensure_topics(
                target, planned.partitions_by_topic, planned.partition_counts, TopicCreation(1)
            )

    def test_setting_that_the_broker_rejects_is_reported(self, broker):
        with pytest.raises(ScanFailed, match="strange cannot be created"):
            self.target(broker).create_topic(
                "strange", 1, TopicCreation(1, {"no.such.setting": "1"})
            )

    def test_unreachable_broker_is_reported_in_one_line(self, monkeypatch):
        monkeypatch.setattr("odradek.spark_jobs.transfer.target_cluster.REQUEST_TIMEOUT_S", 0.5)
        address = f"127.0.0.1:{free_port()}"
        with pytest.raises(ScanFailed, match=f"{address}: no broker answers") as raised:
            TargetCluster({"bootstrap.servers": address}).partition_counts()
        assert "\n" not in str(raised.value)

    def test_unknown_client_setting_is_reported_in_one_line(self):
        with pytest.raises(ScanFailed, match=r"no\.such"):
            TargetCluster({"bootstrap.servers": "127.0.0.1:1", "no.such": "1"})

    def test_missing_client_package_is_reported_in_one_line(self, monkeypatch):
        original = builtins.__import__

        def without_client(name, *args, **kwargs):
            if name.startswith("confluent_kafka"):
                raise ImportError(name)
            return original(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without_client)
        with pytest.raises(ScanFailed, match="confluent-kafka is missing: pip install"):
            TargetCluster({"bootstrap.servers": "127.0.0.1:1"})


def test_record_that_the_target_rejects_is_reported_with_the_progress(broker, export):
    target = TargetCluster({"bootstrap.servers": broker.address})
    target.create_topic("tiny", PARTITIONS, TopicCreation(1, {"max.message.bytes": "90"}))
    planned = plan(export, "tiny")
    with pytest.raises(ScanFailed, match=r"tiny-0: failed after \d+ record\(s\): .*too large"):
        restore_partition(
            planned.restores[0], {"bootstrap.servers": broker.address}, lambda line: None
        )


def test_names_that_are_not_in_the_export_are_reported(export):
    scan_options = parse_options({"path": str(export)})
    with pytest.raises(ScanFailed, match="topic payments is not in the export"):
        plan_restore(scan_options, {"payments": "x"}, RestoreMode.INTO_EMPTY)
    with pytest.raises(ScanFailed, match=f"x: not in {export}; set failOnDataLoss=false"):
        plan_restore(
            parse_options({"path": str(export), "topics": "x"}), {}, RestoreMode.INTO_EMPTY
        )
    with pytest.raises(ScanFailed, match="no exported partition matches the selection"):
        plan_restore(
            parse_options({"path": str(export), "topicsPattern": "x"}), {}, RestoreMode.INTO_EMPTY
        )
