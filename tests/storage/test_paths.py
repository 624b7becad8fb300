"""Formatting and parsing the names of partition directories and their files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import TopicPartition
from odradek.storage.paths import (
    DirectoryName,
    DirectoryType,
    FileName,
    FileStage,
    LogFileType,
    file_path,
    is_valid_topic_name,
    parse_directory_name,
    parse_file_name,
)

UNIQUE = "0123456789abcdef0123456789abcdef"
LONGEST_TOPIC = "t" * 249

DIRECTORIES = {
    "orders-0": DirectoryName(TopicPartition("orders", 0)),
    "a-b.c_d-12": DirectoryName(TopicPartition("a-b.c_d", 12)),
    "orders--1": DirectoryName(TopicPartition("orders-", 1)),
    "x-delete-0": DirectoryName(TopicPartition("x-delete", 0)),
    "t-2147483647": DirectoryName(TopicPartition("t", 2147483647)),
    f"orders-3.{UNIQUE}-delete": DirectoryName(
        TopicPartition("orders", 3), DirectoryType.DELETE, UNIQUE
    ),
    f"orders-3.{UNIQUE}-future": DirectoryName(
        TopicPartition("orders", 3), DirectoryType.FUTURE, UNIQUE
    ),
    f"orders-3.{UNIQUE}-stray": DirectoryName(
        TopicPartition("orders", 3), DirectoryType.STRAY, UNIQUE
    ),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directory_names_match_kafka(name):
    assert str(DIRECTORIES[name]) == name
    assert parse_directory_name(name) == DIRECTORIES[name]


@pytest.mark.parametrize(
    "name",
    [
        *("", "-", "orders", "-0", "orders-", "orders-x", "orders-00", "orders-+1", "lost+found"),
        *("orders-2147483648", "ord ers-0", "orders-0.deleted", "orders-0-delete", "orders-0\n"),
        *(f"orders-0.{UNIQUE}", f"orders-0.{UNIQUE[1:]}-delete", f"{'t' * 250}-0"),
        *(f"orders-0.{UNIQUE.upper()}-delete", f"orders-0.{UNIQUE}-deleted", "orders-\u0661"),
    ],
)
def test_other_directory_names_are_not_parsed(name):
    assert parse_directory_name(name) is None


def test_long_topic_is_shortened_in_delete_and_stray_directory_names():
    for purpose in (DirectoryType.DELETE, DirectoryType.STRAY):
        partition = TopicPartition(LONGEST_TOPIC, 12345)
        name = str(DirectoryName(partition, purpose, UNIQUE))
        assert len(name) == 255
        assert name.endswith(f"t-12345.{UNIQUE}{purpose.value}")
        assert parse_directory_name(name) is not None


def test_topic_too_long_for_a_future_directory_name_is_rejected():
    fitting, too_long = TopicPartition("t" * 213, 0), TopicPartition("t" * 214, 0)
    assert len(str(DirectoryName(fitting, DirectoryType.FUTURE, UNIQUE))) == 255
    with pytest.raises(InvalidTopic, match="more than 213 characters"):
        str(DirectoryName(too_long, DirectoryType.FUTURE, UNIQUE))


topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(topics, st.integers(0, 2**31 - 1), st.sampled_from(DirectoryType))
def test_every_directory_name_round_trips(topic, partition, purpose):
    unique = "" if purpose is DirectoryType.LOG else UNIQUE
    name = DirectoryName(TopicPartition(topic, partition), purpose, unique)
    assert parse_directory_name(str(name)) == name


FILES = {
    "00000000000000000000.log": FileName(0, LogFileType.LOG),
    "00000000000000000042.index": FileName(42, LogFileType.OFFSET_INDEX),
    "00000000000000000042.timeindex.deleted": FileName(
        42, LogFileType.TIME_INDEX, FileStage.DELETED
    ),
    "00000000000000000042.txnindex.cleaned": FileName(
        42, LogFileType.TRANSACTION_INDEX, FileStage.CLEANED
    ),
    "09223372036854775807.log.swap": FileName(2**63 - 1, LogFileType.LOG, FileStage.SWAP),
    "00000000000000000007.snapshot": FileName(7, LogFileType.PRODUCER_SNAPSHOT),
}


@pytest.mark.parametrize("name", FILES)
def test_file_names_match_kafka(name, tmp_path):
    expected = FILES[name]
    assert str(expected) == name
    assert parse_file_name(name) == expected
    path = file_path(tmp_path, expected.offset, expected.file_type, expected.stage)
    assert path == tmp_path / name


@pytest.mark.parametrize(
    "name",
    [
        *("", "42.log", "00000000000000000042", "00000000000000000042.txt", "partition.metadata"),
        *("09223372036854775808.log", "00000000000000000042.log.bak", "0000000000000000004x.log"),
        *("00000000000000000042.log.deleted.deleted", "-0000000000000000042.log"),
        "\u0661" * 20 + ".log",
    ],
)
def test_other_file_names_are_not_parsed(name):
    assert parse_file_name(name) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(LogFileType), st.sampled_from(FileStage))
def test_every_file_name_round_trips(offset, content, stage):
    name = FileName(offset, content, stage)
    assert parse_file_name(str(name)) == name


def test_file_names_sort_by_offset():
    offsets = [0, 9, 10, 99, 2**31, 2**63 - 1]
    names = [str(FileName(offset, LogFileType.LOG)) for offset in offsets]
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", LONGEST_TOPIC, "...", "__consumer_offsets"])
def test_topic_names_of_allowed_characters_are_valid(name):
    assert is_valid_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", LONGEST_TOPIC + "t", "a b", "a/b", "\u00e4", "a\n"]
)
def test_other_topic_names_are_invalid(name):
    assert not is_valid_topic_name(name)
