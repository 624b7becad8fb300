"""Directories that Apache Kafka wrote open here, and tell what Kafka told of them.

What Kafka had stopped cleanly is opened as it is; what was killed, or damaged besides, is recovered
first, and compared with what Kafka itself made of it.
"""

from dataclasses import replace

import pytest

from odradek.storage import leader_epochs
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
    """Ours, and Kafka's, by partition."""
    into = tmp_path_factory.mktemp(request.param)
    recorded = RecordedDirectory.unpack(request.param, into)
    logs = opened_logs(recorded, into / LEFT)
    return [(answers_of(logs[told.name], told), told) for told in recorded.partitions]


def compared(answers, tell):
    ours = {found.name: tell(found) for found, _ in answers}
    kafkas = {told.name: tell(told) for _, told in answers}
    return ours, kafkas


def test_records_are_those_that_the_java_consumer_read(answers):
    ours, kafkas = compared(answers, lambda each: each.records)
    assert ours == kafkas


def test_a_reader_of_committed_records_sees_what_the_java_consumer_saw(answers):
    ours, kafkas = compared(answers, lambda each: each.committed_offsets)
    assert ours == kafkas


def test_logs_have_the_ends_that_kafka_found(answers):
    ours, kafkas = compared(
        answers, lambda each: (each.start_offset, each.last_stable_offset, each.end_offset)
    )
    assert ours == kafkas


def test_timestamps_lead_to_the_offsets_that_kafka_found(answers):
    wrong = {told.name: list(wrong_timestamps(ours, told)) for ours, told in answers}
    assert not any(wrong.values()), wrong


def test_producers_are_known_as_kafka_knew_them(answers):
    ours, kafkas = compared(answers, lambda each: each.producers)
    if kafkas.get("trimmed-whole-0") == ():
        # Kafka forgets the producers of a log whose records have all been deleted, and would take
        # a retry for new; here they are remembered.
        assert len(ours.pop("trimmed-whole-0")) == 1
        kafkas.pop("trimmed-whole-0")
    assert ours == kafkas


def test_transaction_indexes_hold_what_kafkas_held(answers):
    ours, kafkas = compared(answers, lambda each: each.aborted)
    assert ours == kafkas


def test_reads_return_what_fetches_returned(answers):
    ours, kafkas = compared(
        answers,
        lambda each: [
            replace(fetched, aborted=tuple(sorted(fetched.aborted))) for fetched in each.fetches
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
            told.name: files_in(tmp_path / side / told.name, end_offset=told.end_offset)
            for told in recorded.partitions
        }
        for side in (LEFT, RECOVERED)
    )
    if name == "deletion-killed":
        # The deletion of these records was lost in the kill, that of their epoch was not; here it
        # is learned from the batches again.
        del ours["trimmed-whole-0"][leader_epochs.FILE_NAME]
        del kafkas["trimmed-whole-0"][leader_epochs.FILE_NAME]
    assert ours == kafkas


def files_in(directory, *, end_offset):
    """All that is in a partition's directory, but for what may differ.

    An index of no transactions or a checkpoint of no epochs may be a file or none.  A leader notes
    its epoch at the end of the log before it appends; a log by itself knows of no leader.  Kafka
    keeps more snapshots than the newest where it recovers, and fewer where the start has moved.
    """
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    epochs = leader_epochs.read(directory / leader_epochs.FILE_NAME)
    files[leader_epochs.FILE_NAME] = [entry for entry in epochs if entry.start_offset < end_offset]
    for name in list(files):
        is_without_entries = name.endswith(".txnindex") and not files[name]
        if is_without_entries or name.endswith(".snapshot"):
            del files[name]
    return files
