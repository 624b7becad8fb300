"""What did ZooKeeper write, in which order, and for whom?  Its transaction log tells.

A file ``log.<zxid>``: "ZKLG", version int32, database id int64, then transactions, then zeros up to
the preallocated end.  A transaction: checksum int64, size int32, that many bytes, 0x42.  The bytes:
session int64, sequence int32, zxid int64, time int64, type int32, and a record by type.  Strings
and buffers have an int32 length before them, -1 for none.  A transaction is in its file before
ZooKeeper answers.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FILE_HEADER = struct.Struct(">4siq")
ENTRY = struct.Struct(">qi")
TRANSACTION = struct.Struct(">qiqqi")
END_OF_TRANSACTION = b"B"
END_OF_TRANSACTION_BYTES = len(END_OF_TRANSACTION)

CREATE, DELETE, SET, CHECK, MULTI, CREATE2 = 1, 2, 5, 13, 14, 15
CLOSE_SESSION = -11


@dataclass(frozen=True, slots=True)
class Change:
    """``kind`` is create, set or delete; ``version`` that of the node afterwards."""

    zxid: int
    session: int
    kind: str
    path: str
    value: bytes | None = None
    is_ephemeral: bool = False
    version: int = 0


class Journal:
    """Tells of each change once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_to: dict[Path, int] = {}

    def new_changes(self) -> list[Change]:
        logs = sorted(self._directory.rglob("log.*"), key=lambda log: int(log.suffix[1:], 16))
        return [change for log in logs for change in self._new_in(log)]

    def _new_in(self, log: Path) -> Iterator[Change]:
        position = self._read_to.get(log, FILE_HEADER.size)
        with log.open("rb") as file:
            file.seek(position)
            while len(head := file.read(ENTRY.size)) == ENTRY.size:
                _, size = ENTRY.unpack(head)
                content = file.read(size + END_OF_TRANSACTION_BYTES)
                if size == 0 or not content.endswith(END_OF_TRANSACTION):
                    break
                self._read_to[log] = file.tell()
                session, _, zxid, _, kind = TRANSACTION.unpack_from(content)
                yield from _changes(zxid, session, kind, Record(content[TRANSACTION.size :]))


def _changes(zxid: int, session: int, kind: int, record: "Record") -> Iterator[Change]:
    if kind in (CREATE, CREATE2):
        path, value = record.text(), record.buffer()
        record.skip_access_list()
        yield Change(zxid, session, "create", path, value, record.boolean())
    elif kind == SET:
        path, value = record.text(), record.buffer()
        yield Change(zxid, session, "set", path, value, version=record.integer())
    elif kind == DELETE:
        yield Change(zxid, session, "delete", record.text())
    elif kind == MULTI:
        for part, inner in record.list_of(lambda: (record.integer(), record.buffer() or b"")):
            yield from _changes(zxid, session, part, Record(inner))
    elif kind == CLOSE_SESSION:
        for path in record.list_of(record.text):
            yield Change(zxid, session, "delete", path)


class Record:
    """Reads the fields of a record, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def integer(self) -> int:
        (number,) = struct.unpack_from(">i", self._content, self._position)
        self._position += 4
        return int(number)

    def boolean(self) -> bool:
        self._position += 1
        return self._content[self._position - 1] != 0

    def buffer(self) -> bytes | None:
        size = self.integer()
        if size < 0:
            return None
        self._position += size
        return self._content[self._position - size : self._position]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def list_of(self, element: Callable[[], T]) -> list[T]:
        return [element() for _ in range(self.integer())]

    def skip_access_list(self) -> None:
        self.list_of(lambda: (self.integer(), self.text(), self.text()))
