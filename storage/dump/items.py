"""The items of a dump, in text and in JSON alike: facts about files, one after the other.

Every item has a kind; its values can be represented in JSON.

    file                  the start of a file: its path and size
    batch                 a batch of a .log file, by its header; ``position`` is where it begins
    record                a record of the preceding batch
    index_entry           an entry of an .index file
    time_index_entry      an entry of a .timeindex file
    aborted_transaction   an entry of a .txnindex file
    producer              an entry of a .snapshot file
    leader_epoch          an entry of a leader-epoch-checkpoint
    partition_offset      an entry of one of the four offset checkpoints
    partition_metadata, meta_properties, clean_shutdown     the content of the file of that name
    line                  a line of a damaged text file, unchanged
    room                  preallocated zeros at the end: the file was not closed
    note                  a remark about the dump itself
    damage                content that no writer produces: where, and why

Keys and values of records are text if they are printable UTF-8, else an object with the bytes in
base64.  Unknown values are null.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DumpItem:
    kind: str
    values: Mapping[str, Any]


DumpItems = Iterator[DumpItem]


class Decoding(Enum):
    """How the records of a segment are decoded."""

    AUTO = "auto"  # by the topic in the directory's name
    OFFSETS = "offsets"  # as in __consumer_offsets
    TRANSACTIONS = "transactions"  # as in __transaction_state
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """Which items to print, and which checks to make."""

    records: bool = False
    verify: bool = False
    decoding: Decoding = Decoding.AUTO
    first_offset: int = 0
    last_offset: int = OFFSET_MAX
    bytes_max: int | None = None  # limit for each file

    def includes(self, *, first: int, last: int) -> bool:
        """Return whether offsets ``first`` to ``last`` overlap the requested range."""
        return last >= self.first_offset and first <= self.last_offset


def damage_item(reason: str, *, position: int | None = None, line: int | None = None) -> DumpItem:
    return DumpItem("damage", {"position": position, "line": line, "why": reason})


def note_item(reason: str, *, position: int | None = None) -> DumpItem:
    return DumpItem("note", {"position": position, "why": reason})


def printable(content: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as a value for an item."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _to_base64(content)
    # Other unprintable characters could be terminal control sequences.
    if text.replace("\t", "").replace("\n", "").replace("\r", "").isprintable():
        return text
    return _to_base64(content)


def _to_base64(content: bytes) -> dict[str, str]:
    return {"base64": b64encode(content).decode()}
