"""The text format of Kafka's checkpoint files.  Kafka: CheckpointFile.

    0                 version
    2                 number of entries that follow
    orders 0 1042     one line per entry, here with three fields
    orders 1 977

A missing or empty file has no entries: Kafka creates its checkpoints empty and fills them later.
This reader is stricter than Kafka's, which accepts any white space, signs, leading zeros, and a
last line without a newline.  No writer produces those, so they are treated as damage: a number
that the end of the file cuts short would be read as a different number.

The format has no checksum.  Changed bytes are detected when they break a number, a field, the
count, or a rule of the particular file (no duplicate entries, ascending order).  A digit that
became another digit is not detected.  A checkpoint is therefore a hint that its reader compares
with the log, never the only source.

``files.replace`` writes the file completely or not at all.

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
    """The file breaks the format.  The message has the line, counted from 1, and the reason."""

    def __init__(self, path: Path, *, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


def read(path: Path, parse_entry: Callable[[bytes], Entry]) -> list[Entry]:
    """``parse_entry`` gets a line without its newline and raises ValueError for a bad one."""
    return decode(files.read(path) or b"", parse_entry, path=path)


def write(path: Path, lines: Sequence[str]) -> None:
    """Replace the file.  The content is durable when this returns."""
    files.replace(path, encode(lines))


def encode(lines: Sequence[str]) -> bytes:
    return "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()


def decode(content: bytes, parse_entry: Callable[[bytes], Entry], *, path: Path) -> list[Entry]:
    """``path`` is only used in error messages."""
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
    """Split at single spaces, which is how every writer separates the fields."""
    fields = line.split(b" ")
    if len(fields) != count:
        raise ValueError(f"{len(fields)} fields instead of {count}: {_printable(line)}")
    return fields


def parse_number(text: bytes, *, max_value: int) -> int:
    """Parse digits only.  No writer produces a sign or leading zeros, and no value is negative."""
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
