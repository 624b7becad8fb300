"""The parts of a declaration: versions, wire types, fields, schemas.

These are plain data without behaviour. ``schema`` creates them; the compiler and the tests read
them.

Owner: none; created at import, never changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from odradek.protocol.types import ZERO_UUID


class Versions(NamedTuple):
    """An inclusive range of versions; empty when ``low`` exceeds ``high``."""

    low: int
    high: int

    @classmethod
    @cache
    def parse(cls, text: str) -> Versions:
        """``3+``, ``0-12``, ``7`` or ``none``."""
        if text == "none":
            return NO_VERSION
        match = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
        if match is None:
            raise ValueError(f"not a range of versions: {text!r}")
        low, open_end, high = match.groups()
        if open_end == "+":
            return cls(int(low), LATEST)
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == LATEST:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


LATEST = 0x7FFF
NO_VERSION = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A value of fixed width; ``code`` is its letter in the ``struct`` module."""

    name: str
    code: str
    size: int
    default: Any


class VariableLength(NamedTuple):
    """A string, bytes or record batches: a length and that many bytes."""

    name: str
    default: Any


@dataclass(frozen=True, slots=True)
class Array:
    """A count and that many elements."""

    element: WireType


@dataclass(frozen=True, slots=True)
class Nested:
    """The fields of another struct, inline."""

    struct: type[Any]


WireType = Primitive | VariableLength | Array | Nested

BOOL = Primitive("bool", "?", 1, False)
INT8 = Primitive("int8", "b", 1, 0)
INT16 = Primitive("int16", "h", 2, 0)
UINT16 = Primitive("uint16", "H", 2, 0)
INT32 = Primitive("int32", "i", 4, 0)
UINT32 = Primitive("uint32", "I", 4, 0)
INT64 = Primitive("int64", "q", 8, 0)
FLOAT64 = Primitive("float64", "d", 8, 0.0)
UUID = Primitive("uuid", "16s", 16, ZERO_UUID)
STRING = VariableLength("string", "")
BYTES = VariableLength("bytes", b"")
RECORDS = VariableLength("records", None)

#: The default of a field that has none and must be passed.
REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()


@dataclass(slots=True)
class Field:
    """One field of one struct, for all versions."""

    type: WireType
    versions: Versions
    default: Any
    nullable: Versions = NO_VERSION
    tag: int | None = None
    ignorable: bool = False
    compact: bool = True  # whether flexible versions use a compact length
    name: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration of a class. ``key``, ``versions`` and so on are set only for a message."""

    name: str
    fields: tuple[Field, ...]
    key: int | None = None
    versions: Versions = NO_VERSION
    flexible: Versions = NO_VERSION
    unstable: Versions = NO_VERSION
