"""Checkpoints hold what was written into them, and damage is noticed or leaves well-formed values.

The format has no checksum, so a changed byte has one of two outcomes: CheckpointDamaged, or other
entries that a broker could have written (a digit became another digit, a character of a topic
another character).  None goes unnoticed and leaves the entries as they were.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.protocol.types import TopicPartition
from odradek.storage import files, leader_epochs
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.leader_epochs import EpochStart
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from odradek.storage.paths import is_legal_topic

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(is_legal_topic)
partitions = st.builds(TopicPartition, topics, st.integers(0, INT32_MAX))
offsets_of_partitions = st.dictionaries(partitions, st.integers(0, INT64_MAX), max_size=8)

OFFSETS = {TopicPartition("a-b", 0): 107, TopicPartition("a-b", 10): 0, TopicPartition("c", 2): 34}
EPOCHS = [EpochStart(0, 0), EpochStart(1, 17), EpochStart(12, 905)]

in_one_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def without_sync(monkeypatch):
    """Durability is not what is looked at here, and takes most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("odradek.storage.files.System.fsync", lambda *_: None)


@in_one_directory
@given(offsets=offsets_of_partitions)
def test_offsets_are_read_as_they_were_written(tmp_path, without_sync, offsets):
    HIGH_WATERMARKS.write(tmp_path, offsets)
    assert HIGH_WATERMARKS.read(tmp_path) == offsets


@in_one_directory
@given(
    epochs=st.sets(st.integers(0, INT32_MAX), max_size=8),
    starts=st.sets(st.integers(0, INT64_MAX), max_size=8),
)
def test_epochs_are_read_as_they_were_written(tmp_path, without_sync, epochs, starts):
    entries = [EpochStart(*each) for each in zip(sorted(epochs), sorted(starts), strict=False)]
    leader_epochs.write(tmp_path / "epochs", entries)
    assert leader_epochs.read(tmp_path / "epochs") == entries


def damaged(content):
    """Every content that differs in one byte."""
    for at in range(len(content)):
        for byte in range(256):
            if byte != content[at]:
                yield content[:at] + bytes([byte]) + content[at + 1 :]


def outcomes(monkeypatch, original, read):
    """What is read for every single changed byte that is not refused."""
    for content in damaged(original):
        monkeypatch.setattr(files, "read", lambda _, content=content: content)
        try:
            yield read()
        except CheckpointDamaged:
            continue


def test_offsets_with_a_changed_byte_are_refused_or_well_formed(tmp_path, monkeypatch):
    HIGH_WATERMARKS.write(tmp_path, OFFSETS)
    written = (tmp_path / HIGH_WATERMARKS.name).read_bytes()
    others = list(outcomes(monkeypatch, written, lambda: HIGH_WATERMARKS.read(tmp_path)))
    for offsets in others:
        assert len(offsets) == len(OFFSETS)
        assert all(is_legal_topic(topic) for topic, _ in offsets)
        assert len(offsets.items() ^ OFFSETS.items()) == 2, "more than one line is another"
    # Nine other digits for each of 10, but no zero for the first of several; 64 other characters
    # for each of the 7 in topics, but no dot for a topic of one.
    assert len(others) == 10 * 9 - 3 + 7 * 64 - 1


def test_epochs_with_a_changed_byte_are_refused_or_still_ascending(tmp_path, monkeypatch):
    path = tmp_path / "epochs"
    leader_epochs.write(path, EPOCHS)
    for entries in outcomes(monkeypatch, path.read_bytes(), lambda: leader_epochs.read(path)):
        assert len(entries) == len(EPOCHS)
        assert entries == sorted(entries)
        assert sum(a != b for a, b in zip(entries, EPOCHS, strict=True)) == 1
