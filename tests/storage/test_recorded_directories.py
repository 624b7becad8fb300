"""Log directories written by Apache Kafka open here and give the results that Kafka gave.

Directories of a cleanly stopped Kafka are opened as they are.  Those of a killed Kafka, some of
them damaged as well, are recovered first and compared with Kafka's own recovery.
"""

from dataclasses import replace

import pytest

from odradek.storage import leader_epoch_file_cache
from tests.support.log_answers import answers_of, opened_logs, wrong_timestamps
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)

NAMES = names_of_recorded_directories()


@pytest.fixture(scope="module", params=NAMES)
def answers(request, tmp_path_factory):
    """Pairs of our result and Kafka's for each partition."""
    into = tmp_path_factory.mktemp(request.param)
    recorded = RecordedDirectory.unpack(request.param, into)
    logs = opened_logs(recorded, into / LEFT)
    return [
        (answers_of(logs[recorded_partition.name], recorded_partition), recorded_partition)
        for recorded_partition in recorded.partitions
    ]


def compared(answers, select):
    ours = {opened_partition.name: select(opened_partition) for opened_partition, _ in answers}
    kafkas = {
        recorded_partition.name: select(recorded_partition) for _, recorded_partition in answers
    }
    return ours, kafkas


def test_records_are_those_that_the_java_consumer_read(answers):
    ours, kafkas = compared(answers, lambda partition: partition.records)
    assert ours == kafkas


def test_committed_records_are_those_that_the_java_consumer_read(answers):
    ours, kafkas = compared(answers, lambda partition: partition.committed_offsets)
    assert ours == kafkas


def test_offsets_of_the_log_are_those_of_kafka(answers):
    ours, kafkas = compared(
        answers,
        lambda partition: (
            partition.start_offset,
            partition.last_stable_offset,
            partition.end_offset,
        ),
    )
    assert ours == kafkas


def test_timestamp_lookups_return_the_offsets_of_kafka(answers):
    mismatches = {
        recorded_partition.name: list(wrong_timestamps(ours, recorded_partition))
        for ours, recorded_partition in answers
    }
    assert not any(mismatches.values()), mismatches


def test_producer_states_are_those_of_kafka(answers):
    ours, kafkas = compared(answers, lambda partition: partition.producers)
    if kafkas.get("trimmed-whole-0") == ():
        # Kafka forgets the producers of a log whose records have all been deleted, and would
        # append a retry again; Odradek remembers them.
        assert len(ours.pop("trimmed-whole-0")) == 1
        kafkas.pop("trimmed-whole-0")
    assert ours == kafkas


def test_transaction_indexes_have_the_entries_of_kafka(answers):
    ours, kafkas = compared(answers, lambda partition: partition.aborted)
    assert ours == kafkas


def test_reads_return_what_kafka_fetches_returned(answers):
    ours, kafkas = compared(
        answers,
        lambda partition: [
            replace(fetch, aborted=tuple(sorted(fetch.aborted))) for fetch in partition.fetches
        ],
    )
    assert ours == kafkas


@pytest.mark.parametrize("name", NAMES)
def test_files_are_left_as_kafka_left_them(name, tmp_path):
    recorded = RecordedDirectory.unpack(name, tmp_path)
    logs = opened_logs(recorded, tmp_path / LEFT)
    for log in logs.values():
        log.close(now_ms=recorded.recorded_at_ms)
    ours, kafkas = (
        {
            recorded_partition.name: files_in(
                tmp_path / side / recorded_partition.name, end_offset=recorded_partition.end_offset
            )
            for recorded_partition in recorded.partitions
        }
        for side in (LEFT, RECOVERED)
    )
    if name == "deletion-killed":
        # The kill lost the deletion of these records but not that of their leader epoch; Odradek
        # reads the epoch from the batches again.
        del ours["trimmed-whole-0"][leader_epoch_file_cache.FILE_NAME]
        del kafkas["trimmed-whole-0"][leader_epoch_file_cache.FILE_NAME]
    assert ours == kafkas


def files_in(directory, *, end_offset):
    """All files in a partition's directory, except those that may differ.

    A transaction index or epoch checkpoint without entries may be an empty file or missing.  A
    leader records its epoch at the log end before it appends; a log alone knows no leader.  Kafka
    keeps more snapshots than the newest when it recovers, and fewer when the log start has moved.
    """
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    epochs = leader_epoch_file_cache.read(directory / leader_epoch_file_cache.FILE_NAME)
    files[leader_epoch_file_cache.FILE_NAME] = [
        entry for entry in epochs if entry.start_offset < end_offset
    ]
    for name in list(files):
        is_without_entries = name.endswith(".txnindex") and not files[name]
        if is_without_entries or name.endswith(".snapshot"):
            del files[name]
    return files
