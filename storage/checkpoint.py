"""The text format of Kafka's checkpoint files.

    0                 the version
    2                 how many entries follow
    orders 0 1042     one line for each, here of three words
    orders 1 977

A missing file and an empty one hold no entries: Kafka makes its checkpoints empty and fills them
later.  Reading is stricter than Kafka's, which takes any white space, signs, leading zeros, and a
last line without its end.  No writer leaves those, so they are damage: a number that is cut short
by the end of the file would be another number.

The format has no checksum.  Changed bytes are noticed when they break a number, a word, the count,
or what the entries' owner demands of them (no entry twice, ascending); a digit that became another
digit is not.  So a checkpoint is a hint that its reader compares with the log, never the only word.

Written by ``files.replace``: whole, or not at all.

Owner: none; holds no state, any thread.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import files

VERSION = 0
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Entry = TypeVar("Entry")


class CheckpointDamaged(KafkaStorageError):
    """A file that no writer of this format leaves behind; says where, from line 1 on, and why."""

    def __init__(self, path: Path, *, line: int, why: str) -> None:
        super().__init__(f"{path}:{line}: {why}")
        self.path = path
        self.line = line
        self.why = why


def read(path: Path, entry_of: Callable[[bytes], Entry]) -> list[Entry]:
    """``entry_of`` is given a line without its end; what it cannot read is a ValueError."""
    return decode(files.read(path) or b"", entry_of, path=path)


def write(path: Path, lines: Sequence[str]) -> None:
    """Durable when it returns."""
    files.replace(path, encode(lines))


def encode(lines: Sequence[str]) -> bytes:
    return "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()


def decode(content: bytes, entry_of: Callable[[bytes], Entry], *, path: Path) -> list[Entry]:
    """``path`` is what an error calls the content."""
    if not content:
        return []
    *lines, rest = content.split(b"\n")
    if len(lines) < 2 or rest:
        raise CheckpointDamaged(path, line=len(lines) + 1, why="the file is cut short")
    version = _entry_at(1, lines, _lone_number, path)
    if version != VERSION:
        raise CheckpointDamaged(path, line=1, why=f"version {version} is unknown")
    announced, found = _entry_at(2, lines, _lone_number, path), len(lines) - 2
    if announced != found:
        why = f"{announced} entries are announced and {found} are there"
        raise CheckpointDamaged(path, line=2, why=why)
    return [_entry_at(line, lines, entry_of, path) for line in range(3, len(lines) + 1)]


def words(line: bytes, *, count: int) -> list[bytes]:
    """Words apart by one space, as every writer leaves them."""
    found = line.split(b" ")
    if len(found) != count:
        raise ValueError(f"{len(found)} words instead of {count}: {_shown(line)}")
    return found


def number(word: bytes, *, most: int) -> int:
    """Digits as every writer leaves them: no sign, since none is negative, and no leading zeros."""
    if not word.isdigit() or (word[:1] == b"0" and word != b"0"):
        raise ValueError(f"not a number: {_shown(word)}")
    if len(word) > 20 or int(word) > most:
        raise ValueError(f"more than {most}: {_shown(word)}")
    return int(word)


def _entry_at(
    line: int, lines: list[bytes], entry_of: Callable[[bytes], Entry], path: Path
) -> Entry:
    try:
        return entry_of(lines[line - 1])
    except ValueError as malformed:
        raise CheckpointDamaged(path, line=line, why=str(malformed)) from malformed


def _lone_number(line: bytes) -> int:
    return number(line, most=INT32_MAX)


def _shown(written: bytes) -> str:
    return repr(written[:80].decode("ascii", errors="backslashreplace"))
