"""What a dump consists of: facts about files, one after the other, for text and for JSON alike.

Every fact has a kind; its values are such as JSON can carry.

    file                  a file begins: its path and size
    batch                 a batch of a .log file, by its header; ``position`` is where it begins
    record                a record of the batch before
    index_entry           of an .index file
    time_index_entry      of a .timeindex file
    aborted_transaction   of a .txnindex file
    producer              of a .snapshot file
    leader_epoch          of a leader-epoch-checkpoint
    partition_offset      of one of the four offset checkpoints
    partition_metadata, meta_properties, clean_shutdown     what the file of that name says
    line                  of a text file that is damaged, as it stands there
    room                  zeros at the end: the file was not closed
    note                  what a reader should know about the dump itself
    damage                what no writer leaves behind: where, and why

Keys and values of records are text where they are printable UTF-8, else an object with the bytes in
base64.  What a fact does not know is null.

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
    """How records of a segment are understood."""

    AUTO = "auto"  # by the topic that the directory is named for
    OFFSETS = "offsets"  # as those of __consumer_offsets
    TRANSACTIONS = "transactions"  # as those of __transaction_state
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What is to be dumped, and how closely it is to be looked at."""

    records: bool = False
    verify: bool = False
    decoding: Decoding = Decoding.AUTO
    first_offset: int = 0
    last_offset: int = OFFSET_MAX
    bytes_max: int | None = None  # of each file

    def includes(self, *, first: int, last: int) -> bool:
        """Whether offsets from ``first`` to ``last`` are among those asked for."""
        return last >= self.first_offset and first <= self.last_offset


def damage_item(reason: str, *, position: int | None = None, line: int | None = None) -> DumpItem:
    return DumpItem("damage", {"position": position, "line": line, "why": reason})


def note_item(reason: str, *, position: int | None = None) -> DumpItem:
    return DumpItem("note", {"position": position, "why": reason})


def printable(content: bytes | None) -> str | dict[str, str] | None:
    """Bytes as a fact carries them."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _to_base64(content)
    # Whatever else cannot be printed could be an order to a terminal.
    if text.replace("\t", "").replace("\n", "").replace("\r", "").isprintable():
        return text
    return _to_base64(content)


def _to_base64(content: bytes) -> dict[str, str]:
    return {"base64": b64encode(content).decode()}
