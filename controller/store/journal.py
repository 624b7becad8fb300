"""The journal of the embedded store: the persistent znodes and the zxid, in a SQLite file.

    node   one row for each persistent znode
    tree   one row: the zxid of the last change

Every row has a checksum, a CRC-32 of its other fields, since SQLite detects damage to its own
structure but not to the stored values.  ``application_id`` distinguishes the file from other
databases, ``user_version`` is the version of this schema.

A commit is one transaction.  It is in the write-ahead log and flushed when ``commit`` returns.  The
file is locked from ``open`` to ``close``: another process, or another journal in this process, is
rejected at once.

Owner: the store.  Every method blocks on the disk; the store calls them off the loop, one at a
time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from zlib import crc32

from odradek.controller.store.base import CannotOpenSession
from odradek.controller.store.data_tree import DataTree, DeletedNode, Mutation, NodeRecord

APPLICATION_ID = 0x4F647261  # "Odra"
SCHEMA_VERSION = 1
_SCHEMA = """
    CREATE TABLE node (
        path TEXT NOT NULL PRIMARY KEY,
        value BLOB NOT NULL,
        created_zxid INTEGER NOT NULL,
        modified_zxid INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        modified_ms INTEGER NOT NULL,
        version INTEGER NOT NULL,
        creations INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE tree (
        only INTEGER NOT NULL PRIMARY KEY CHECK (only = 0),
        zxid INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    )
"""


class JournalError(CannotOpenSession):
    """The file cannot be used; the message names the file and the reason."""


class JournalInUse(JournalError):
    """Another process, or another journal in this process, has the file open."""


class CorruptJournal(JournalError):
    """The file is a journal, but it is damaged."""


class IncompatibleJournal(JournalError):
    """The file is not a journal, or a later version of this code wrote it."""


class SqliteJournal:
    """A journal in one SQLite file, with a ``-wal`` file next to it while it is open."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._connection: sqlite3.Connection | None = None

    def open(self) -> DataTree:
        """Load the tree.  Creates a missing file; reopens and reloads a file that is open."""
        self.close()
        with ExitStack() as on_error, self._translate_errors():
            # The file may hold credentials, so it is created with mode 0600.  Opening an existing
            # file here would be wrong: closing it would drop the lock of another journal on it.
            with suppress(FileExistsError):
                self.file.touch(mode=0o600, exist_ok=False)
            # No waiting for locks, explicit transactions, and calls from one thread after another.
            self._connection = sqlite3.connect(
                self.file, timeout=0, isolation_level=None, check_same_thread=False
            )
            on_error.callback(self.close)
            tree = self._initialize(self._connection)
            on_error.pop_all()
            return tree

    def commit(self, mutations: Iterable[Mutation], zxid: int) -> None:
        """Write all mutations.  After a JournalError, ``open`` shows whether they were written."""
        assert self._connection is not None, self.file
        rows, deleted = [], []
        for mutation in mutations:
            if isinstance(mutation, DeletedNode):
                deleted.append(mutation)
            else:
                rows.append((*mutation, _checksum(mutation)))
        with self._translate_errors():
            execute = self._connection.execute
            execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )
            self._connection.executemany("DELETE FROM node WHERE path = ?", deleted)
            execute("INSERT OR REPLACE INTO tree VALUES (0, ?, ?)", (zxid, _checksum([0, zxid])))
            execute("COMMIT")

    def close(self) -> None:
        """Close the file; do nothing if it is not open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._translate_errors():
                connection.close()

    def _initialize(self, connection: sqlite3.Connection) -> DataTree:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = self._check_format(connection)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalError(f"{self.file}: cannot use a write-ahead log here (mode {mode})")
        connection.execute("PRAGMA synchronous = FULL")
        # Take the exclusive lock: a lock for reading alone would not exclude other readers.
        connection.execute("BEGIN EXCLUSIVE")
        if is_new:
            self._create_schema(connection)
        connection.execute("COMMIT")
        return self._load_tree(connection)

    def _check_format(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file is new.  Runs before any change: it may be another database."""
        app_id, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        (table_count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if app_id == version == table_count == 0:
            return True
        if app_id != APPLICATION_ID:
            raise IncompatibleJournal(f"{self.file}: this database is not a metadata store")
        if version != SCHEMA_VERSION:
            raise IncompatibleJournal(
                f"{self.file}: metadata store of version {version};"
                f" this release supports version {SCHEMA_VERSION}"
            )
        return False

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO tree VALUES (0, 0, ?)", (_checksum([0, 0]),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _load_tree(self, connection: sqlite3.Connection) -> DataTree:
        (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if result != "ok":
            raise CorruptJournal(f"{self.file}: damaged: {result}")
        zxids = connection.execute("SELECT * FROM tree").fetchall()
        rows = connection.execute("SELECT * FROM node").fetchall()
        if len(zxids) != 1 or any(_checksum(row[:-1]) != row[-1] for row in (*zxids, *rows)):
            raise CorruptJournal(f"{self.file}: damaged: the checksum of a row does not match")
        try:
            return DataTree(zxid=zxids[0][1], records=[NodeRecord(*row[:-1]) for row in rows])
        except ValueError as error:
            raise CorruptJournal(f"{self.file}: damaged: {error}") from error

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # SQLite's error message may contain bytes of the damaged file.
            raise CorruptJournal(f"{self.file}: damaged: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise self._to_journal_error(error) from error

    def _to_journal_error(self, error: sqlite3.Error | OSError) -> JournalError:
        # The low byte is the primary error code, the rest is the extended code.
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return JournalInUse(f"{self.file}: in use, probably by another broker")
            case sqlite3.SQLITE_CORRUPT:
                return CorruptJournal(f"{self.file}: damaged: {error}")
            case sqlite3.SQLITE_NOTADB:
                return IncompatibleJournal(
                    f"{self.file}: not a metadata store, or its start is damaged"
                )
            case _:
                return JournalError(f"{self.file}: {error}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    assert isinstance(value, int), (name, value)
    return value


def _checksum(fields: Sequence[object]) -> int:
    """Cover the types too: one flipped bit can turn text into bytes, or zero into NULL."""
    values = [field for field in fields if isinstance(field, bytes)]
    # ASCII only, since the set of characters that repr() escapes changes with Python's version.
    rest = ascii([[len(field)] if isinstance(field, bytes) else field for field in fields])
    return crc32(b"".join(values), crc32(rest.encode()))
