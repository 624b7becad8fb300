"""The file of the embedded store, and damaged or foreign files."""

import random
import shutil
import sqlite3
import stat

import pytest

from odradek.controller.store.base import Create, Delete, SetData
from odradek.controller.store.data_tree import DataTree, DeletedNode, NodeRecord
from odradek.controller.store.journal import (
    CorruptJournal,
    IncompatibleJournal,
    JournalError,
    JournalInUse,
    SqliteJournal,
)

NODE_COUNT = 60


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metadata.db"


def open_journal(file, *operations):
    """Return an open journal with a tree in it."""
    journal = SqliteJournal(file)
    tree = journal.open()
    effects = tree.run(tree.begin_session(), operations, now_ms=5)
    journal.commit(effects.mutations.values(), tree.zxid)
    return journal, tree


def write_journal(file):
    nodes = [Create(f"/{number}", b"value %d " % number * 20) for number in range(NODE_COUNT)]
    journal, tree = open_journal(file, *nodes, Create("/1/big", b"x" * 20_000), SetData("/2", b""))
    journal.close()
    return tree


def read_tree(file):
    journal = SqliteJournal(file)
    tree = journal.open()
    journal.close()
    return tree


def contents(tree):
    return tree.zxid, sorted(tree.records())


def test_committed_nodes_are_read_back(file):
    tree = write_journal(file)
    assert contents(read_tree(file)) == contents(tree)
    assert len(tree.records()) == NODE_COUNT + 2


def test_deleted_nodes_are_not_read_back(file):
    journal, tree = open_journal(file, Create("/a"), Create("/b"), Delete("/a"))
    journal.commit([DeletedNode("/b"), DeletedNode("/never")], tree.zxid + 1)
    journal.close()
    assert [record.path for record in read_tree(file).records()] == ["/"]


def test_new_file_has_an_empty_tree_and_is_private_to_its_owner(file):
    assert contents(read_tree(file)) == contents(DataTree())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_commits_are_flushed_to_disk(file):
    journal, _ = open_journal(file)
    settings = [
        journal._connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("journal_mode", "synchronous", "locking_mode")
    ]
    journal.close()
    assert settings == [("wal",), (2,), ("exclusive",)]


def test_closed_journal_is_a_single_file(file):
    write_journal(file)
    assert list(file.parent.iterdir()) == [file]


def test_reopen_reads_the_committed_nodes(file):
    journal, tree = open_journal(file, Create("/a"))
    assert contents(journal.open()) == contents(tree)
    journal.close()


def test_second_open_is_rejected_and_changes_nothing(file):
    journal, tree = open_journal(file, Create("/a"))
    for _ in range(2):
        with pytest.raises(JournalInUse, match="in use"):
            SqliteJournal(file).open()
    journal.commit([], tree.zxid + 7)
    journal.close()
    assert read_tree(file).zxid == tree.zxid + 7


@pytest.mark.parametrize("name", ["no/such/folder.db", "."])
def test_error_names_a_file_that_cannot_be_created(tmp_path, name):
    with pytest.raises(JournalError, match=str(tmp_path)):
        SqliteJournal(tmp_path / name).open()


def test_foreign_database_is_rejected_and_not_changed(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE somebody (elses)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(IncompatibleJournal, match="not a metadata store"):
        SqliteJournal(file).open()
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"listeners=PLAINTEXT://:9092\n" * 100, bytes(4096)])
def test_foreign_file_is_rejected_and_not_changed(file, content):
    file.write_bytes(content)
    with pytest.raises(JournalError, match="not a metadata store"):
        SqliteJournal(file).open()
    assert file.read_bytes() == content


def write_changed_journal(file, statement, *values):
    write_journal(file)
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_later_version_is_rejected(file):
    write_changed_journal(file, "PRAGMA user_version = 2")
    with pytest.raises(IncompatibleJournal, match="version 2; this release supports version 1"):
        SqliteJournal(file).open()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE node SET value = x'00' WHERE path = '/7'", "checksum"),
        ("UPDATE node SET path = '/seven' WHERE path = '/7'", "checksum"),
        ("UPDATE node SET value = CAST(value AS TEXT) WHERE path = '/7'", "checksum"),
        ("UPDATE node SET value = 0 WHERE path = '/2'", "checksum"),
        ("UPDATE node SET version = version + 1", "checksum"),
        ("UPDATE node SET checksum = 'none'", "checksum"),
        ("UPDATE tree SET zxid = zxid - 1", "checksum"),
        ("DELETE FROM tree", "checksum"),
        ("DELETE FROM node WHERE path = '/1'", "no parent for '/1/big'"),
        ("DROP TABLE node", "no such table"),
    ],
)
def test_tree_that_was_tampered_with_is_rejected(file, statement, message):
    write_changed_journal(file, statement)
    with pytest.raises(JournalError, match=message):
        SqliteJournal(file).open()


def test_node_without_a_parent_is_rejected(file):
    journal, tree = open_journal(file)
    journal.commit([NodeRecord("not/a/path", b"", 1, 1, 1, 1, 0, 0)], tree.zxid)
    with pytest.raises(CorruptJournal, match="no parent for 'not/a/path'"):
        journal.open()


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bit_is_detected_or_harmless(file, seed):
    expected, whole, rng = contents(write_journal(file)), file.read_bytes(), random.Random(seed)
    for _ in range(50):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        assert contents_unless_rejected(file) in (expected, None)


def contents_unless_rejected(file):
    try:
        return contents(read_tree(file))
    except JournalError as error:
        # The file must be rejected for the damage, not because it is in use.
        return contents(DataTree()) if "in use" in str(error) else None


@pytest.mark.parametrize("seed", range(3))
def test_truncated_file_is_rejected(file, seed):
    write_journal(file)
    whole, rng = file.read_bytes(), random.Random(seed)
    for _ in range(10):
        file.write_bytes(whole[: rng.randrange(1, len(whole))])
        with pytest.raises(JournalError, match=str(file)):
            SqliteJournal(file).open()


def test_copy_of_an_open_file_has_the_committed_nodes(file, tmp_path):
    journal, tree = open_journal(file, Create("/a", b"x" * 10_000))
    for suffix in ("", "-wal"):
        shutil.copy(f"{file}{suffix}", f"{tmp_path / 'copy.db'}{suffix}")
    journal.close()
    assert contents(read_tree(tmp_path / "copy.db")) == contents(tree)
