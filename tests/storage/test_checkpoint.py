"""The text checkpoint format: writing, reading, and the reported position of damage."""

import pickle
from pathlib import Path

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.storage import checkpoint
from odradek.storage.checkpoint import CorruptCheckpoint, parse_number, split_fields

PATH = Path("logs/a-checkpoint")


def read_line(line):
    name, value = split_fields(line, count=2)
    return name.decode(), parse_number(value, max_value=1000)


def decoded(content):
    return checkpoint.decode(content, read_line, path=PATH)


def test_file_holds_version_entry_count_and_one_line_per_entry(tmp_path):
    checkpoint.write(tmp_path / "file", ["a 1", "b 20"])
    assert (tmp_path / "file").read_bytes() == b"0\n2\na 1\nb 20\n"
    assert checkpoint.read(tmp_path / "file", read_line) == [("a", 1), ("b", 20)]


def test_empty_checkpoint_has_two_lines(tmp_path):
    checkpoint.write(tmp_path / "file", [])
    assert (tmp_path / "file").read_bytes() == b"0\n0\n"
    assert checkpoint.read(tmp_path / "file", read_line) == []


def test_missing_file_has_no_entries(tmp_path):
    assert checkpoint.read(tmp_path / "none", read_line) == []


def test_empty_file_has_no_entries(tmp_path):
    (tmp_path / "file").touch()
    assert checkpoint.read(tmp_path / "file", read_line) == []


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"0", 1, "cut short"),
        (b"0\n", 2, "cut short"),
        (b"0\r\n0\r\n", 1, "not a number"),
        (b"0\n1\na 1", 3, "cut short"),
        (b"0\n2\na 1\n", 2, "expected 2 entries, but found 1"),
        (b"0\n1\na 1\nb 2\n", 2, "expected 1 entries, but found 2"),
        (b"1\n1\na 1\n", 1, "version 1 is unknown"),
        (b"x\n1\na 1\n", 1, "not a number: 'x'"),
        (b"0 0\n1\na 1\n", 1, "not a number: '0 0'"),
        (b" 0\n1\na 1\n", 1, "not a number"),
        (b"0\n01\na 1\n", 2, "not a number: '01'"),
        (b"0\n1\na  1\n", 3, "3 fields instead of 2"),
        (b"0\n1\na\t1\n", 3, "1 fields instead of 2"),
        (b"0\n1\na 1 \n", 3, "3 fields instead of 2"),
        (b"0\n-1\n", 2, "not a number: '-1'"),
        (b"0\n4294967296\na 1\n", 2, "more than 2147483647"),
        (b"0\n2\na 1\nb\n", 4, "1 fields instead of 2"),
        (b"0\n2\na 1\n\n", 4, "1 fields instead of 2"),
        (b"0\n1\na 1_0\n", 3, "not a number: '1_0'"),
        (b"0\n1\na +1\n", 3, "not a number"),
        (b"0\n1\na \xd9\xa1\n", 3, "not a number"),
        (b"0\n1\na 1001\n", 3, "more than 1000"),
        (b"0\n1\na " + b"9" * 5000 + b"\n", 3, "more than 1000"),
        (bytes(100), 1, "cut short"),
        (b"0\n1\na 1\n" + bytes(100), 4, "cut short"),
    ],
)
def test_damage_is_reported_with_path_line_and_reason(content, line, reason):
    with pytest.raises(CorruptCheckpoint, match=reason) as caught:
        decoded(content)
    assert caught.value.path == PATH
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{PATH}:{line}: ")


def test_corrupt_checkpoint_can_be_pickled_and_is_a_storage_error():
    damaged = CorruptCheckpoint(PATH, line=3, reason="because")
    copy = pickle.loads(pickle.dumps(damaged))
    assert (copy.path, copy.line, copy.reason) == (PATH, 3, "because")
    assert str(copy) == str(damaged)
    assert copy.error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_truncation_at_any_byte_is_detected():
    content = b"0\n3\na 1\nbc 23\nd 456\n"
    for end in range(1, len(content)):
        with pytest.raises(CorruptCheckpoint):
            decoded(content[:end])
