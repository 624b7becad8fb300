"""The offset checkpoints of a log directory, as Kafka 3.9.1 writes and reads them."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)

ALL = {
    "recovery-point-offset-checkpoint": RECOVERY_POINTS,
    "replication-offset-checkpoint": HIGH_WATERMARKS,
    "log-start-offset-checkpoint": LOG_START_OFFSETS,
    "cleaner-offset-checkpoint": CLEANER_OFFSETS,
}
OFFSETS = {
    TopicPartition("__transaction_state", 0): 7,
    TopicPartition("t2.8none", 12): 0,
    TopicPartition("a-b", 2**31 - 1): 2**63 - 1,
}


@pytest.mark.parametrize("name", ALL)
def test_each_checkpoint_has_its_own_file_with_a_line_per_partition(tmp_path, name):
    ALL[name].write(tmp_path, OFFSETS)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == (
        "0\n3\n__transaction_state 0 7\nt2.8none 12 0\na-b 2147483647 9223372036854775807\n"
    )
    assert ALL[name].read(tmp_path) == OFFSETS


def test_new_directory_has_no_offsets(tmp_path):
    assert HIGH_WATERMARKS.read(tmp_path) == {}


def test_write_removes_lines_of_deleted_partitions(tmp_path):
    HIGH_WATERMARKS.write(tmp_path, OFFSETS)
    HIGH_WATERMARKS.write(tmp_path, {TopicPartition("a-b", 1): 5})
    assert HIGH_WATERMARKS.read(tmp_path) == {TopicPartition("a-b", 1): 5}


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        ("a 0\n", 3, "2 fields instead of 3"),
        ("a b 0 1\n", 3, "4 fields instead of 3"),
        ("a 0 -1\n", 3, "not a number"),
        ("a 2147483648 1\n", 3, "more than 2147483647"),
        ("a 0 9223372036854775808\n", 3, "more than 9223372036854775807"),
        ("a/b 0 1\n", 3, "invalid topic name 'a/b'"),
        ("\u00e4 0 1\n", 3, "invalid topic name"),
        ("a 0 1\nb 0 1\na 0 1\n", 5, "a-0 has a duplicate line"),
    ],
)
def test_invalid_lines_are_rejected(tmp_path, lines, line, reason):
    content = f"0\n{lines.count(chr(10))}\n{lines}"
    (tmp_path / "replication-offset-checkpoint").write_text(content, "utf-8")
    with pytest.raises(CorruptCheckpoint, match=reason) as caught:
        HIGH_WATERMARKS.read(tmp_path)
    assert caught.value.line == line
