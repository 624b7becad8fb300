"""An embedded store whose process is killed, or whose disk is full, keeps all that it answered."""

import random
import sqlite3

import pytest

from odradek.controller.store.journal import SqliteJournal
from tests.support.store_writer import Order, check_steps, store_writer

STATEMENTS_MAX = 40


@pytest.fixture(scope="module")
def writer():
    with store_writer() as started:
        yield started


def reopened(file, told, *, before=-1):
    """The last step that is kept, looked at twice: recovery must not be needed again."""
    for _ in range(2):
        journal = SqliteJournal(file)
        tree = journal.open()
        last = check_steps(tree, at_least=max(told.steps, default=before))
        assert tree.zxid >= told.zxid
        journal.close()
    return last


@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_at_any_moment_loses_nothing_it_answered(writer, tmp_path, seed):
    file, lots = tmp_path / "metadata.db", random.Random(seed)
    last, zxid = -1, 0
    for _ in range(10):
        order = Order(file=str(file), steps=2000, at_a_time=lots.randint(1, 8))
        told = writer.run(order, kill_after=lots.randint(1, 40))
        assert told.was_killed
        assert told.zxid > zxid
        last, zxid = reopened(file, told, before=last), told.zxid


def test_a_process_killed_at_any_statement_loses_nothing_it_answered(writer, tmp_path):
    for statement in range(1, STATEMENTS_MAX):
        file = tmp_path / f"{statement}.db"
        order = Order(file=str(file), steps=50, at_a_time=2, kill_at_statement=statement)
        told = writer.run(order)
        assert told.was_killed
        last = reopened(file, told)
        told = writer.run(Order(file=str(file), steps=2))
        assert told.steps == [last + 1, last + 2]
        assert reopened(file, told) == last + 2


def test_a_process_killed_after_the_first_start_of_many_loses_nothing(writer, tmp_path):
    file, last = tmp_path / "metadata.db", -1
    for statement in range(1, STATEMENTS_MAX):
        order = Order(file=str(file), steps=50, at_a_time=3, kill_at_statement=statement)
        told = writer.run(order)
        assert told.was_killed
        last = reopened(file, told, before=last)
    assert last > 0


def test_a_full_disk_ends_the_session_until_there_is_room(writer, tmp_path):
    file = tmp_path / "metadata.db"
    prepared = writer.run(Order(file=str(file), steps=20))
    told = writer.run(Order(file=str(file), steps=100, file_bytes_max=100_000))
    writing, reading, opening = told.failures
    assert writing.startswith("SessionExpired")
    assert reading.startswith("SessionExpired")
    assert opening.startswith("JournalError")
    assert str(file) in opening
    assert len(told.steps) > 100
    assert min(told.steps) == max(prepared.steps) + 1
    assert reopened(file, told) == max(told.steps)


def test_ephemeral_nodes_are_never_written(writer, tmp_path):
    file = tmp_path / "metadata.db"
    writer.run(Order(file=str(file), steps=2000), kill_after=5)
    connection = sqlite3.connect(file)
    paths = {path for (path,) in connection.execute("SELECT path FROM node")}
    connection.close()
    assert "/n" in paths
    assert "/e" not in paths
