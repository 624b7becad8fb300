"""Compaction leaves the same batches as Apache Kafka leaves (tests/vectors/ORIGIN.md)."""

import shutil

import pytest

from tests.support.compaction import base_offsets, compact, stored_batches
from tests.support.logs import opened
from tests.support.recorded_compaction import load, names_of_recorded_compactions

NAMES = names_of_recorded_compactions()
SETTINGS = {"cleanup_policy": ("compact",), "index_interval_bytes": 150}


def fields_of(batch):
    """Return all fields of a batch. Kafka uses another base timestamp, so bytes may differ."""
    return {
        "offsets": (batch.base_offset, batch.last_offset),
        "producer": (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        "attributes": batch.attributes,
        "leader epoch": batch.partition_leader_epoch,
        "max timestamp": batch.max_timestamp,
        "horizon": batch.delete_horizon_ms,
        "records": list(batch.records()),
    }


def cleaned_at(log, kafka_log, recorded):
    """Return Kafka's cleaning time: from a delete horizon that it set, or when it was observed."""
    before = {batch.delete_horizon_ms for batch in stored_batches(log)}
    new = {batch.delete_horizon_ms for batch in stored_batches(kafka_log)} - before
    return new.pop() - recorded.delete_retention_ms if new else recorded.seen_ms


def test_there_are_recorded_compactions():
    assert NAMES == ["idempotent", "plain", "transactions"]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_remaining_batches_and_segments_are_those_of_kafka(tmp_path, name, number):
    recorded = load(name, tmp_path)[number - 1]
    our_log = opened(shutil.copytree(tmp_path / recorded.before, tmp_path / "ours-0"), **SETTINGS)
    kafka_log = opened(
        shutil.copytree(tmp_path / recorded.after, tmp_path / "kafkas-0"), **SETTINGS
    )
    plan = compact(
        our_log,
        now_ms=cleaned_at(our_log, kafka_log, recorded),
        checkpoint=recorded.first_dirty_offset,
        segment_bytes_max=recorded.segment_bytes,
        delete_retention_ms=recorded.delete_retention_ms,
    )
    assert plan.end_offset == recorded.end_offset
    assert [fields_of(batch) for batch in stored_batches(our_log)] == [
        fields_of(batch) for batch in stored_batches(kafka_log)
    ]
    assert base_offsets(our_log) == base_offsets(kafka_log)
    assert transaction_indexes(our_log.directory) == transaction_indexes(tmp_path / recorded.after)


def transaction_indexes(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.txnindex")}
