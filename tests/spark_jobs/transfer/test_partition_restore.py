"""Export, then restore into a real broker: a consumer reads the same records in the same order."""

import builtins
import json

import pytest
from confluent_kafka import Producer

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import options_of
from odradek.spark_jobs.transfer.restore_plan import plan_restore
from odradek.spark_jobs.transfer.restoring import Presence, restore_partition
from odradek.spark_jobs.transfer.target import Creation, Target, check_empty, prepare
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
    """What was sent to the topic."""
    rows = rows_of_all_kinds(500)
    create(broker, "orders")
    send(Producer({"bootstrap.servers": broker.address}), "orders", rows)
    return rows


@pytest.fixture(scope="module")
def export(broker, sent, tmp_path_factory):
    """Of the directory of the running broker, up to what the producer was told is there."""
    target = tmp_path_factory.mktemp("exports") / "orders"
    exported(broker.data_dir, target, topics="orders", ignoreHighWatermark="true")
    return target


def plan(export, topic, presence=Presence.NONE, **options):
    chosen = options_of({"path": str(export), **options})
    return plan_restore(chosen, {"orders": topic}, presence)


def restore(broker, export, topic, presence=Presence.NONE):
    planned = plan(export, topic, presence)
    settings = {"bootstrap.servers": broker.address}
    target = Target(settings)
    prepare(target, planned.needed, planned.partition_counts, Creation(1))
    if presence is Presence.NONE:
        check_empty(target, planned.needed)
    return [restore_partition(each, settings, lambda line: None) for each in planned.restores]


def test_another_topic_has_the_same_records(broker, sent, export):
    restored = restore(broker, export, "again")
    assert [(each.partition, each.records) for each in restored] == [(0, 250), (1, 0), (2, 250)]
    assert consumed(broker, "again") == sent


def test_several_exports_are_restored_as_one(broker, sent, tmp_path):
    cut = {"orders": {"0": 100, "2": 30}}
    paths = [tmp_path / "1", tmp_path / "2"]
    common = {"topics": "orders", "ignoreHighWatermark": "true"}
    exported(broker.data_dir, paths[0], endingOffsets=json.dumps(cut), **common)
    exported(broker.data_dir, paths[1], startingOffsets=json.dumps(cut), **common)
    restore(broker, f"{paths[0]},{paths[1]}", "in-parts")
    assert consumed(broker, "in-parts") == sent


def test_two_exports_of_the_same_records_are_refused(broker, export, tmp_path):
    exported(broker.data_dir, tmp_path / "2", topics="orders", ignoreHighWatermark="true")
    with pytest.raises(ScanFailed, match="orders-0: two exports have offsets from 0 on"):
        plan(f"{export},{tmp_path / '2'}", "again")


class TestWhatIsThere:
    def test_a_target_with_records_is_refused(self, broker, export):
        restore(broker, export, "twice")
        with pytest.raises(ScanFailed, match="twice-0 has records"):
            restore(broker, export, "twice")

    def test_append_sends_all_behind_what_is_there(self, broker, sent, export):
        restore(broker, export, "appended")
        restore(broker, export, "appended", Presence.APPEND)
        twice = {partition: rows + rows for partition, rows in sent.items()}
        assert consumed(broker, "appended") == twice

    def test_a_restore_that_was_broken_off_goes_on_where_it_was(self, broker, sent, export):
        send_first(broker, "resumed", sent, count=77)
        restored = restore(broker, export, "resumed", Presence.RESUME)
        assert [(each.records, each.present) for each in restored] == [(173, 77), (0, 0), (173, 77)]
        assert consumed(broker, "resumed") == sent
        again = restore(broker, export, "resumed", Presence.RESUME)
        assert [(each.records, each.present) for each in again] == [(0, 250), (0, 0), (0, 250)]
        assert consumed(broker, "resumed") == sent

    def test_records_that_are_not_of_the_export_are_not_gone_on_from(self, broker, sent, export):
        others = {0: [*sent[0][:9], (b"other", b"other", [], NOON_MS)], 1: [], 2: []}
        send_first(broker, "mixed-up", others, count=10)
        with pytest.raises(ScanFailed, match="mixed-up-0 has not just the first 10 records"):
            restore(broker, export, "mixed-up", Presence.RESUME)


def send_first(broker, topic, records, count):
    """As an attempt that was broken off leaves it."""
    create(broker, topic)
    first = {partition: rows[:count] for partition, rows in records.items()}
    send(Producer({"bootstrap.servers": broker.address}), topic, first)


class TestTargets:
    def target(self, broker):
        return Target({"bootstrap.servers": broker.address})

    def test_a_topic_is_created_with_as_many_partitions_as_it_had(self, broker, sent, export):
        planned = plan(export, "new", assign='{"orders": [0]}')
        assert planned.needed == {"new": [0]}
        target = self.target(broker)
        creation = Creation(1, {"retention.ms": "-1"})
        prepare(target, planned.needed, planned.partition_counts, creation)
        assert target.partition_counts()["new"] == PARTITIONS

    def test_a_topic_that_is_missing_is_not_created_unasked(self, broker, export):
        planned = plan(export, "missing")
        with pytest.raises(ScanFailed, match="no topic missing: --create"):
            prepare(self.target(broker), planned.needed, planned.partition_counts, None)

    def test_too_few_partitions_are_refused(self, broker, export):
        target = self.target(broker)
        target.create("small", 2, Creation(1))
        planned = plan(export, "small")
        with pytest.raises(ScanFailed, match="small has 2 partitions, and 3 are needed"):
            prepare(target, planned.needed, planned.partition_counts, Creation(1))

    def test_a_setting_that_the_broker_refuses_is_told(self, broker):
        with pytest.raises(ScanFailed, match="strange cannot be created"):
            self.target(broker).create("strange", 1, Creation(1, {"no.such.setting": "1"}))

    def test_no_broker_is_one_line(self, monkeypatch):
        monkeypatch.setattr("odradek.spark_jobs.transfer.target.ANSWER_S", 0.5)
        address = f"127.0.0.1:{free_port()}"
        with pytest.raises(ScanFailed, match=f"{address}: no broker answers") as failed:
            Target({"bootstrap.servers": address}).partition_counts()
        assert "\n" not in str(failed.value)

    def test_a_setting_that_the_client_does_not_know_is_one_line(self):
        with pytest.raises(ScanFailed, match=r"no\.such"):
            Target({"bootstrap.servers": "127.0.0.1:1", "no.such": "1"})

    def test_no_client_is_one_line(self, monkeypatch):
        real = builtins.__import__

        def without_client(name, *args, **kwargs):
            if name.startswith("confluent_kafka"):
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without_client)
        with pytest.raises(ScanFailed, match="confluent-kafka is missing: pip install"):
            Target({"bootstrap.servers": "127.0.0.1:1"})


def test_a_record_that_the_target_refuses_is_told_with_how_far_it_came(broker, export):
    target = Target({"bootstrap.servers": broker.address})
    target.create("tiny", PARTITIONS, Creation(1, {"max.message.bytes": "90"}))
    planned = plan(export, "tiny")
    with pytest.raises(ScanFailed, match=r"tiny-0: after \d+ records: .*too large"):
        restore_partition(
            planned.restores[0], {"bootstrap.servers": broker.address}, lambda line: None
        )


def test_names_that_were_not_exported_are_told(export):
    chosen = options_of({"path": str(export)})
    with pytest.raises(ScanFailed, match="no topic payments was exported"):
        plan_restore(chosen, {"payments": "x"}, Presence.NONE)
    with pytest.raises(ScanFailed, match=f"x: not in {export}; failOnDataLoss=false"):
        plan_restore(options_of({"path": str(export), "topics": "x"}), {}, Presence.NONE)
    with pytest.raises(ScanFailed, match="nothing of that was exported"):
        plan_restore(options_of({"path": str(export), "topicsPattern": "x"}), {}, Presence.NONE)
