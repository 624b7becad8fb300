"""Names of partition directories and of the files in them, made and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import TopicPartition
from odradek.storage.paths import (
    Content,
    DirectoryName,
    FileName,
    Purpose,
    Stage,
    directory_named,
    file_named,
    file_path,
    is_legal_topic,
)

UNIQUE = "0123456789abcdef0123456789abcdef"
LONGEST_TOPIC = "t" * 249

DIRECTORIES = {
    "orders-0": DirectoryName(TopicPartition("orders", 0)),
    "a-b.c_d-12": DirectoryName(TopicPartition("a-b.c_d", 12)),
    "orders--1": DirectoryName(TopicPartition("orders-", 1)),
    "x-delete-0": DirectoryName(TopicPartition("x-delete", 0)),
    "t-2147483647": DirectoryName(TopicPartition("t", 2147483647)),
    f"orders-3.{UNIQUE}-delete": DirectoryName(TopicPartition("orders", 3), Purpose.DELETE, UNIQUE),
    f"orders-3.{UNIQUE}-future": DirectoryName(TopicPartition("orders", 3), Purpose.FUTURE, UNIQUE),
    f"orders-3.{UNIQUE}-stray": DirectoryName(TopicPartition("orders", 3), Purpose.STRAY, UNIQUE),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_has_the_name_that_kafka_gives_it(name):
    assert str(DIRECTORIES[name]) == name
    assert directory_named(name) == DIRECTORIES[name]


@pytest.mark.parametrize(
    "name",
    [
        *("", "-", "orders", "-0", "orders-", "orders-x", "orders-00", "orders-+1", "lost+found"),
        *("orders-2147483648", "ord ers-0", "orders-0.deleted", "orders-0-delete", "orders-0\n"),
        *(f"orders-0.{UNIQUE}", f"orders-0.{UNIQUE[1:]}-delete", f"{'t' * 250}-0"),
        *(f"orders-0.{UNIQUE.upper()}-delete", f"orders-0.{UNIQUE}-deleted", "orders-\u0661"),
    ],
)
def test_other_directories_are_not_a_partitions(name):
    assert directory_named(name) is None


def test_a_long_topic_is_cut_in_a_name_that_waits_for_removal():
    for purpose in (Purpose.DELETE, Purpose.STRAY):
        partition = TopicPartition(LONGEST_TOPIC, 12345)
        name = str(DirectoryName(partition, purpose, UNIQUE))
        assert len(name) == 255
        assert name.endswith(f"t-12345.{UNIQUE}{purpose.value}")
        assert directory_named(name) is not None


def test_a_long_topic_cannot_move_between_directories():
    fitting, too_long = TopicPartition("t" * 213, 0), TopicPartition("t" * 214, 0)
    assert len(str(DirectoryName(fitting, Purpose.FUTURE, UNIQUE))) == 255
    with pytest.raises(InvalidTopic, match="more than 213 characters"):
        str(DirectoryName(too_long, Purpose.FUTURE, UNIQUE))


topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(topics, st.integers(0, 2**31 - 1), st.sampled_from(Purpose))
def test_every_directory_name_is_read_as_it_was_made(topic, partition, purpose):
    unique = "" if purpose is Purpose.LOG else UNIQUE
    name = DirectoryName(TopicPartition(topic, partition), purpose, unique)
    assert directory_named(str(name)) == name


FILES = {
    "00000000000000000000.log": FileName(0, Content.BATCHES),
    "00000000000000000042.index": FileName(42, Content.OFFSET_INDEX),
    "00000000000000000042.timeindex.deleted": FileName(42, Content.TIME_INDEX, Stage.DELETED),
    "00000000000000000042.txnindex.cleaned": FileName(42, Content.TRANSACTION_INDEX, Stage.CLEANED),
    "09223372036854775807.log.swap": FileName(2**63 - 1, Content.BATCHES, Stage.SWAP),
    "00000000000000000007.snapshot": FileName(7, Content.PRODUCER_SNAPSHOT),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_name_that_kafka_gives_it(name, tmp_path):
    expected = FILES[name]
    assert str(expected) == name
    assert file_named(name) == expected
    path = file_path(tmp_path, expected.offset, expected.content, expected.stage)
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
def test_other_files_are_not_a_logs(name):
    assert file_named(name) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(Content), st.sampled_from(Stage))
def test_every_file_name_is_read_as_it_was_made(offset, content, stage):
    name = FileName(offset, content, stage)
    assert file_named(str(name)) == name


def test_names_sort_as_their_offsets_do():
    offsets = [0, 9, 10, 99, 2**31, 2**63 - 1]
    names = [str(FileName(offset, Content.BATCHES)) for offset in offsets]
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", LONGEST_TOPIC, "...", "__consumer_offsets"])
def test_topics_of_letters_digits_and_three_signs_are_legal(name):
    assert is_legal_topic(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", LONGEST_TOPIC + "t", "a b", "a/b", "\u00e4", "a\n"]
)
def test_other_topics_are_not(name):
    assert not is_legal_topic(name)
