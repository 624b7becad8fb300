"""Compaction leaves what Apache Kafka's leaves of the same log: see tests/vectors/ORIGIN.md."""

import shutil

import pytest

from tests.support.compaction import base_offsets, compact, stored_batches
from tests.support.logs import opened
from tests.support.recorded_compaction import load, names_of_recorded_compactions

NAMES = names_of_recorded_compactions()
SETTINGS = {"cleanup_policy": ("compact",), "index_interval_bytes": 150}


def fields_of(batch):
    """All that a batch tells.  Kafka counts timestamps from another base, so bytes may differ."""
    return {
        "offsets": (batch.base_offset, batch.last_offset),
        "producer": (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        "attributes": batch.attributes,
        "leader epoch": batch.partition_leader_epoch,
        "max timestamp": batch.max_timestamp,
        "horizon": batch.delete_horizon_ms,
        "records": list(batch.records()),
    }


def cleaned_at(log, kafkas, done):
    """When Kafka compacted: a horizon that it set tells, or when it was seen to have done so."""
    known = {batch.delete_horizon_ms for batch in stored_batches(log)}
    new = {batch.delete_horizon_ms for batch in stored_batches(kafkas)} - known
    return new.pop() - done.delete_retention_ms if new else done.seen_ms


def test_there_are_recorded_compactions():
    assert NAMES == ["idempotent", "plain", "transactions"]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_batches_are_left_in_the_same_segments(tmp_path, name, number):
    done = load(name, tmp_path)[number - 1]
    ours = opened(shutil.copytree(tmp_path / done.before, tmp_path / "ours-0"), **SETTINGS)
    kafkas = opened(shutil.copytree(tmp_path / done.after, tmp_path / "kafkas-0"), **SETTINGS)
    plan = compact(
        ours,
        now_ms=cleaned_at(ours, kafkas, done),
        checkpoint=done.first_dirty_offset,
        segment_bytes_max=done.segment_bytes,
        delete_retention_ms=done.delete_retention_ms,
    )
    assert plan.end_offset == done.end_offset
    assert [fields_of(batch) for batch in stored_batches(ours)] == [
        fields_of(batch) for batch in stored_batches(kafkas)
    ]
    assert base_offsets(ours) == base_offsets(kafkas)
    assert transaction_indexes(ours.directory) == transaction_indexes(tmp_path / done.after)


def transaction_indexes(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.txnindex")}
