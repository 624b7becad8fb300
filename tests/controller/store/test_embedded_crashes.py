"""The embedded store keeps every acknowledged write after a process kill or a full disk."""

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


def last_step_after_reopen(file, result, *, before=-1):
    """Return the last stored step. Open the file twice: recovery must not be needed again."""
    for _ in range(2):
        journal = SqliteJournal(file)
        tree = journal.open()
        last = check_steps(tree, at_least=max(result.steps, default=before))
        assert tree.zxid >= result.zxid
        journal.close()
    return last


@pytest.mark.parametrize("seed", range(3))
def test_process_killed_at_any_time_loses_no_acknowledged_write(writer, tmp_path, seed):
    file, rng = tmp_path / "metadata.db", random.Random(seed)
    last, zxid = -1, 0
    for _ in range(10):
        order = Order(file=str(file), steps=2000, at_a_time=rng.randint(1, 8))
        result = writer.run(order, kill_after=rng.randint(1, 40))
        assert result.was_killed
        assert result.zxid > zxid
        last, zxid = last_step_after_reopen(file, result, before=last), result.zxid


def test_process_killed_at_any_statement_loses_no_acknowledged_write(writer, tmp_path):
    for statement in range(1, STATEMENTS_MAX):
        file = tmp_path / f"{statement}.db"
        order = Order(file=str(file), steps=50, at_a_time=2, kill_at_statement=statement)
        result = writer.run(order)
        assert result.was_killed
        last = last_step_after_reopen(file, result)
        result = writer.run(Order(file=str(file), steps=2))
        assert result.steps == [last + 1, last + 2]
        assert last_step_after_reopen(file, result) == last + 2


def test_process_killed_after_several_starts_loses_no_acknowledged_write(writer, tmp_path):
    file, last = tmp_path / "metadata.db", -1
    for statement in range(1, STATEMENTS_MAX):
        order = Order(file=str(file), steps=50, at_a_time=3, kill_at_statement=statement)
        result = writer.run(order)
        assert result.was_killed
        last = last_step_after_reopen(file, result, before=last)
    assert last > 0


def test_full_disk_expires_the_session_until_there_is_space(writer, tmp_path):
    file = tmp_path / "metadata.db"
    prepared = writer.run(Order(file=str(file), steps=20))
    result = writer.run(Order(file=str(file), steps=100, file_bytes_max=100_000))
    writing, reading, opening = result.failures
    assert writing.startswith("SessionExpired")
    assert reading.startswith("SessionExpired")
    assert opening.startswith("JournalError")
    assert str(file) in opening
    assert len(result.steps) > 100
    assert min(result.steps) == max(prepared.steps) + 1
    assert last_step_after_reopen(file, result) == max(result.steps)


def test_ephemeral_nodes_are_never_written(writer, tmp_path):
    file = tmp_path / "metadata.db"
    writer.run(Order(file=str(file), steps=2000), kill_after=5)
    connection = sqlite3.connect(file)
    paths = {path for (path,) in connection.execute("SELECT path FROM node")}
    connection.close()
    assert "/n" in paths
    assert "/e" not in paths
