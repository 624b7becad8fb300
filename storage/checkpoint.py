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


class CorruptCheckpoint(KafkaStorageError):
    """A file that no writer of this format leaves behind; says where, from line 1 on, and why."""

    def __init__(self, path: Path, *, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


def read(path: Path, parse_entry: Callable[[bytes], Entry]) -> list[Entry]:
    """``entry_of`` is given a line without its end; what it cannot read is a ValueError."""
    return decode(files.read(path) or b"", parse_entry, path=path)


def write(path: Path, lines: Sequence[str]) -> None:
    """Durable when it returns."""
    files.replace(path, encode(lines))


def encode(lines: Sequence[str]) -> bytes:
    return "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()


def decode(content: bytes, parse_entry: Callable[[bytes], Entry], *, path: Path) -> list[Entry]:
    """``path`` is what an error calls the content."""
    if not content:
        return []
    *lines, rest = content.split(b"\n")
    if len(lines) < 2 or rest:
        raise CorruptCheckpoint(path, line=len(lines) + 1, reason="the file is cut short")
    version = _parse_line(1, lines, _parse_count, path)
    if version != VERSION:
        raise CorruptCheckpoint(path, line=1, reason=f"version {version} is unknown")
    expected, actual = _parse_line(2, lines, _parse_count, path), len(lines) - 2
    if expected != actual:
        reason = f"expected {expected} entries, but found {actual}"
        raise CorruptCheckpoint(path, line=2, reason=reason)
    return [_parse_line(line, lines, parse_entry, path) for line in range(3, len(lines) + 1)]


def split_fields(line: bytes, *, count: int) -> list[bytes]:
    """Words apart by one space, as every writer leaves them."""
    fields = line.split(b" ")
    if len(fields) != count:
        raise ValueError(f"{len(fields)} fields instead of {count}: {_printable(line)}")
    return fields


def parse_number(text: bytes, *, max_value: int) -> int:
    """Digits as every writer leaves them: no sign, since none is negative, and no leading zeros."""
    if not text.isdigit() or (text[:1] == b"0" and text != b"0"):
        raise ValueError(f"not a number: {_printable(text)}")
    if len(text) > 20 or int(text) > max_value:
        raise ValueError(f"more than {max_value}: {_printable(text)}")
    return int(text)


def _parse_line(
    line: int, lines: list[bytes], parse_entry: Callable[[bytes], Entry], path: Path
) -> Entry:
    try:
        return parse_entry(lines[line - 1])
    except ValueError as malformed:
        raise CorruptCheckpoint(path, line=line, reason=str(malformed)) from malformed


def _parse_count(line: bytes) -> int:
    return parse_number(line, max_value=INT32_MAX)


def _printable(text: bytes) -> str:
    return repr(text[:80].decode("ascii", errors="backslashreplace"))
