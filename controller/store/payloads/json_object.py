"""A JSON object whose fields are read by name and type.

Types are as strict as Kafka's readers are: a number in quotes is no number, and a number with a
fraction none either.  Everything that is read can be written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from math import isfinite
from reprlib import repr as shortened
from typing import Any, Final, NoReturn

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class PayloadDamaged(Exception):
    """The value of a node is not what its place in the tree demands; says which, and why."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(f"{node}: {why}")
        self.node = node
        self.why = why


class Fields:
    """The fields of one object.  Every way of reading raises PayloadDamaged if it cannot be."""

    __slots__ = ("_values", "node")

    def __init__(self, values: dict[str, Any], node: str) -> None:
        self._values = values
        self.node: Final = node

    @classmethod
    def parse(cls, value: bytes, node: str) -> Fields:
        parsed = parse_json(value, node)
        if not isinstance(parsed, dict):
            raise PayloadDamaged(node, f"not a JSON object: {shortened(parsed)}")
        return cls(parsed, node)

    def has(self, key: str) -> bool:
        """Whether it is there, and not null."""
        return self._values.get(key) is not None

    def int32(self, key: str, default: int | None = None) -> int:
        return self._int32(self._values.get(key, default), key)

    def text(self, key: str) -> str:
        return self._text(self._values.get(key), key)

    def int64_in_text(self, key: str, default: int | None = None) -> int:
        """A number in quotes; where Kafka does so, old versions may have left the quotes out."""
        value = self._values.get(key, default)
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
            self.refuse(f"{key} is no number of 64 bits: {shortened(value)}")
        return value

    def int32s(self, key: str) -> tuple[int, ...]:
        return tuple(self._int32(each, key) for each in self._array(key))

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self._text(each, key) for each in self._array(key))

    def text_map(self, key: str) -> dict[str, str]:
        """Nothing if it is null or not there."""
        return {name: self._text(each, name) for name, each in self._object(key).items()}

    def int32s_map(self, key: str) -> dict[str, tuple[int, ...]]:
        """Nothing if it is null or not there."""
        fields = Fields(self._object(key), self.node)
        return {name: fields.int32s(name) for name in fields._values}

    def objects_map(self, key: str) -> dict[str, Fields]:
        """Nothing if it is null or not there."""
        return {name: self._fields(each, name) for name, each in self._object(key).items()}

    def objects(self, key: str) -> list[Fields]:
        return [self._fields(each, key) for each in self._array(key)]

    def beyond(self, known: Collection[str]) -> dict[str, Any]:
        """All but those of ``known``."""
        return {key: value for key, value in self._values.items() if key not in known}

    def refuse(self, why: str) -> NoReturn:
        raise PayloadDamaged(self.node, why)

    def _int32(self, value: Any, key: str) -> int:
        # A bool is an int to isinstance.
        if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
            self.refuse(f"{key} is no number of 32 bits: {shortened(value)}")
        return value

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            self.refuse(f"{key} is no text: {shortened(value)}")
        return value

    def _array(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if not isinstance(value, list):
            self.refuse(f"{key} is no array: {shortened(value)}")
        return value

    def _object(self, key: str) -> dict[str, Any]:
        value = self._values.get(key)
        return self._fields({} if value is None else value, key)._values

    def _fields(self, value: Any, key: str) -> Fields:
        if not isinstance(value, dict):
            self.refuse(f"{key} is no object: {shortened(value)}")
        return Fields(value, self.node)


def parse_json(value: bytes, node: str) -> Any:
    try:
        text = value.decode()
        parsed = _DECODER.decode(text)
        if "\\u" in text:
            _ENCODER.encode(parsed).encode()  # half a surrogate pair can be escaped, not written
    except (ValueError, RecursionError) as error:
        raise PayloadDamaged(node, f"not JSON: {error}") from error
    return parsed


def write_json(known: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
    assert not known.keys() & extra.keys(), (known, extra)
    return _UNLIKE_KAFKA.sub(_as_kafka, _ENCODER.encode({**known, **extra})).encode()


def parse_number(value: bytes, node: str, *, largest: int) -> int:
    """A node that holds a number and nothing else; none is negative."""
    if not _DIGITS.fullmatch(value) or int(value) > largest:
        raise PayloadDamaged(node, f"no number up to {largest}: {shortened(value)}")
    return int(value)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} cannot be written again")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"JSON has no {text}")


def _as_kafka(match: re.Match[str]) -> str:
    piece = match[0]
    if piece.startswith("\\u"):
        return "\\u" + piece[2:].upper()
    return piece if piece.startswith("\\") else _surrogates(piece)


def _surrogates(character: str) -> str:
    high, low = divmod(ord(character) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


_DIGITS = re.compile(rb"[0-9]{1,19}")
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

# Kafka's JSON library (Jackson) writes \u001F where ours has \u001f, and escapes what needs more
# than 16 bits.  An escaped backslash is matched so that what follows it is not taken for an escape.
_UNLIKE_KAFKA = re.compile(r"\\\\|\\u[0-9a-f]{4}|[\U00010000-\U0010FFFF]")
