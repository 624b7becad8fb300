"""The file of the embedded store, and files that only look like it."""

import random
import shutil
import sqlite3
import stat

import pytest

from odradek.controller.store.base import Create, Delete, Set
from odradek.controller.store.journal import (
    JournalDamaged,
    JournalError,
    JournalForeign,
    JournalInUse,
    SqliteJournal,
)
from odradek.controller.store.tree import Gone, Record, Tree

NODE_COUNT = 60


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metadata.db"


def journal_of(file, *operations):
    """Open, with a tree in it."""
    journal = SqliteJournal(file)
    tree = journal.open()
    effects = tree.run(tree.begin_session(), operations, now_ms=5)
    journal.commit(effects.mutations.values(), tree.zxid)
    return journal, tree


def filled(file):
    nodes = [Create(f"/{number}", b"value %d " % number * 20) for number in range(NODE_COUNT)]
    journal, tree = journal_of(file, *nodes, Create("/1/big", b"x" * 20_000), Set("/2", b""))
    journal.close()
    return tree


def found_in(file):
    journal = SqliteJournal(file)
    tree = journal.open()
    journal.close()
    return tree


def contents(tree):
    return tree.zxid, sorted(tree.records())


def test_what_was_committed_is_found(file):
    tree = filled(file)
    assert contents(found_in(file)) == contents(tree)
    assert len(tree.records()) == NODE_COUNT + 2


def test_what_is_gone_is_not_found(file):
    journal, tree = journal_of(file, Create("/a"), Create("/b"), Delete("/a"))
    journal.commit([Gone("/b"), Gone("/never")], tree.zxid + 1)
    journal.close()
    assert [record.path for record in found_in(file).records()] == ["/"]


def test_a_new_file_has_an_empty_tree_and_one_reader(file):
    assert contents(found_in(file)) == contents(Tree())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_commits_are_synced(file):
    journal, _ = journal_of(file)
    settings = [
        journal._connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("journal_mode", "synchronous", "locking_mode")
    ]
    journal.close()
    assert settings == [("wal",), (2,), ("exclusive",)]


def test_it_is_one_file_when_closed(file):
    filled(file)
    assert list(file.parent.iterdir()) == [file]


def test_opening_again_finds_what_was_committed(file):
    journal, tree = journal_of(file, Create("/a"))
    assert contents(journal.open()) == contents(tree)
    journal.close()


def test_another_journal_is_refused_and_does_no_harm(file):
    journal, tree = journal_of(file, Create("/a"))
    for _ in range(2):
        with pytest.raises(JournalInUse, match="in use"):
            SqliteJournal(file).open()
    journal.commit([], tree.zxid + 7)
    journal.close()
    assert found_in(file).zxid == tree.zxid + 7


@pytest.mark.parametrize("name", ["no/such/folder.db", "."])
def test_a_file_that_cannot_be_made_is_named(tmp_path, name):
    with pytest.raises(JournalError, match=str(tmp_path)):
        SqliteJournal(tmp_path / name).open()


def test_another_database_is_refused_and_left_alone(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE somebody (elses)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(JournalForeign, match="not a metadata store"):
        SqliteJournal(file).open()
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"listeners=PLAINTEXT://:9092\n" * 100, bytes(4096)])
def test_something_else_is_refused_and_left_alone(file, content):
    file.write_bytes(content)
    with pytest.raises(JournalError, match="not a metadata store"):
        SqliteJournal(file).open()
    assert file.read_bytes() == content


def changed(file, statement, *values):
    filled(file)
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_a_later_version_is_refused(file):
    changed(file, "PRAGMA user_version = 2")
    with pytest.raises(JournalForeign, match="version 2; this release knows version 1"):
        SqliteJournal(file).open()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE node SET value = x'00' WHERE path = '/7'", "checksum"),
        ("UPDATE node SET path = '/seven' WHERE path = '/7'", "checksum"),
        ("UPDATE node SET value = CAST(value AS TEXT) WHERE path = '/7'", "checksum"),
        ("UPDATE node SET value = 0 WHERE path = '/2'", "checksum"),
        ("UPDATE node SET version = version + 1", "checksum"),
        ("UPDATE node SET checksum = 'none'", "checksum"),
        ("UPDATE tree SET zxid = zxid - 1", "checksum"),
        ("DELETE FROM tree", "checksum"),
        ("DELETE FROM node WHERE path = '/1'", "no place for '/1/big'"),
        ("DROP TABLE node", "no such table"),
    ],
)
def test_a_tree_that_was_tampered_with_is_refused(file, statement, finding):
    changed(file, statement)
    with pytest.raises(JournalError, match=finding):
        SqliteJournal(file).open()


def test_nodes_that_make_no_tree_are_refused(file):
    journal, tree = journal_of(file)
    journal.commit([Record("not/a/path", b"", 1, 1, 1, 1, 0, 0)], tree.zxid)
    with pytest.raises(JournalDamaged, match="no place for 'not/a/path'"):
        journal.open()


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_byte_is_noticed_or_does_not_matter(file, seed):
    expected, whole, lots = contents(filled(file)), file.read_bytes(), random.Random(seed)
    for _ in range(50):
        damaged = bytearray(whole)
        damaged[lots.randrange(len(damaged))] ^= 1 << lots.randrange(8)
        file.write_bytes(damaged)
        assert unless_refused(file) in (expected, None)


def unless_refused(file):
    try:
        return contents(found_in(file))
    except JournalError as error:
        # It must not pass for anything but the damage.
        return contents(Tree()) if "in use" in str(error) else None


@pytest.mark.parametrize("seed", range(3))
def test_a_file_that_was_cut_is_refused(file, seed):
    filled(file)
    whole, lots = file.read_bytes(), random.Random(seed)
    for _ in range(10):
        file.write_bytes(whole[: lots.randrange(1, len(whole))])
        with pytest.raises(JournalError, match=str(file)):
            SqliteJournal(file).open()


def test_a_copy_of_a_file_in_use_has_what_was_committed(file, tmp_path):
    journal, tree = journal_of(file, Create("/a", b"x" * 10_000))
    for suffix in ("", "-wal"):
        shutil.copy(f"{file}{suffix}", f"{tmp_path / 'copy.db'}{suffix}")
    journal.close()
    assert contents(found_in(tmp_path / "copy.db")) == contents(tree)
