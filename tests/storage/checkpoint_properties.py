"""Checkpoints read back as they were written; damage is rejected or yields well-formed values.

The format has no checksum, so a changed byte has one of two outcomes: CorruptCheckpoint, or other
entries that a broker could have written (a digit became another digit, a character of a topic
another character).  No changed byte leaves the entries as they were.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.protocol.types import TopicPartition
from odradek.storage import files, leader_epoch_file_cache
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.leader_epoch_file_cache import EpochEntry
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from odradek.storage.paths import is_valid_topic_name

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(is_valid_topic_name)
partitions = st.builds(TopicPartition, topics, st.integers(0, INT32_MAX))
offsets_of_partitions = st.dictionaries(partitions, st.integers(0, INT64_MAX), max_size=8)

OFFSETS = {TopicPartition("a-b", 0): 107, TopicPartition("a-b", 10): 0, TopicPartition("c", 2): 34}
EPOCHS = [EpochEntry(0, 0), EpochEntry(1, 17), EpochEntry(12, 905)]

in_one_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def without_sync(monkeypatch):
    """Skip fsync: these tests do not check durability, and fsync takes most of the time."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("odradek.storage.files.SystemCalls.fsync", lambda *_: None)


@in_one_directory
@given(offsets=offsets_of_partitions)
def test_offsets_round_trip(tmp_path, without_sync, offsets):
    HIGH_WATERMARKS.write(tmp_path, offsets)
    assert HIGH_WATERMARKS.read(tmp_path) == offsets


@in_one_directory
@given(
    epochs=st.sets(st.integers(0, INT32_MAX), max_size=8),
    starts=st.sets(st.integers(0, INT64_MAX), max_size=8),
)
def test_epochs_round_trip(tmp_path, without_sync, epochs, starts):
    entries = [EpochEntry(*pair) for pair in zip(sorted(epochs), sorted(starts), strict=False)]
    leader_epoch_file_cache.write(tmp_path / "epochs", entries)
    assert leader_epoch_file_cache.read(tmp_path / "epochs") == entries


def one_byte_variants(content):
    """Yield every variant of the content that differs in one byte."""
    for position in range(len(content)):
        for byte in range(256):
            if byte != content[position]:
                yield content[:position] + bytes([byte]) + content[position + 1 :]


def accepted_values(monkeypatch, original_content, read):
    """Yield the value read for each changed byte that is not rejected."""
    for content in one_byte_variants(original_content):
        monkeypatch.setattr(files, "read", lambda _, content=content: content)
        try:
            yield read()
        except CorruptCheckpoint:
            continue


def test_offsets_with_a_changed_byte_are_rejected_or_well_formed(tmp_path, monkeypatch):
    HIGH_WATERMARKS.write(tmp_path, OFFSETS)
    original = (tmp_path / HIGH_WATERMARKS.name).read_bytes()
    accepted = list(accepted_values(monkeypatch, original, lambda: HIGH_WATERMARKS.read(tmp_path)))
    for offsets in accepted:
        assert len(offsets) == len(OFFSETS)
        assert all(is_valid_topic_name(topic) for topic, _ in offsets)
        assert len(offsets.items() ^ OFFSETS.items()) == 2, "more than one line differs"
    # Each of the 10 digits has nine alternatives, except zero as the first of several digits. Each
    # of the 7 topic characters has 64 alternatives, except a dot as a whole topic name.
    assert len(accepted) == 10 * 9 - 3 + 7 * 64 - 1


def test_epochs_with_a_changed_byte_are_rejected_or_still_ascending(tmp_path, monkeypatch):
    path = tmp_path / "epochs"
    leader_epoch_file_cache.write(path, EPOCHS)
    for entries in accepted_values(
        monkeypatch, path.read_bytes(), lambda: leader_epoch_file_cache.read(path)
    ):
        assert len(entries) == len(EPOCHS)
        assert entries == sorted(entries)
        assert sum(a != b for a, b in zip(entries, EPOCHS, strict=True)) == 1
