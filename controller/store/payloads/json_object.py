"""A JSON object with typed access to its fields.

Types are as strict as in Kafka's readers: a number in quotes is not a number, and neither is a
number with a fraction.  Every value that is read can be written again.
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


class CorruptPayload(Exception):
    """The value of a znode is invalid; the message names the path and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class JsonObject:
    """The fields of one object.  All accessors raise CorruptPayload if the type is wrong."""

    __slots__ = ("_values", "path")

    def __init__(self, values: dict[str, Any], path: str) -> None:
        self._values = values
        self.path: Final = path

    @classmethod
    def parse(cls, value: bytes, path: str) -> JsonObject:
        parsed = parse_json(value, path)
        if not isinstance(parsed, dict):
            raise CorruptPayload(path, f"not a JSON object: {shortened(parsed)}")
        return cls(parsed, path)

    def has(self, key: str) -> bool:
        """Return whether the field is present and not null."""
        return self._values.get(key) is not None

    def int32(self, key: str, default: int | None = None) -> int:
        return self._check_int32(self._values.get(key, default), key)

    def text(self, key: str) -> str:
        return self._check_text(self._values.get(key), key)

    def int64_from_text(self, key: str, default: int | None = None) -> int:
        """Read a number in quotes; old versions of Kafka may have written it without quotes."""
        value = self._values.get(key, default)
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
            self.raise_corrupt(f"{key} is not a 64-bit integer: {shortened(value)}")
        return value

    def int32_list(self, key: str) -> tuple[int, ...]:
        return tuple(self._check_int32(value, key) for value in self._array(key))

    def text_list(self, key: str) -> tuple[str, ...]:
        return tuple(self._check_text(value, key) for value in self._array(key))

    def text_map(self, key: str) -> dict[str, str]:
        """Empty if the field is null or missing."""
        return {name: self._check_text(value, name) for name, value in self._object(key).items()}

    def int32_list_map(self, key: str) -> dict[str, tuple[int, ...]]:
        """Empty if the field is null or missing."""
        fields = JsonObject(self._object(key), self.path)
        return {name: fields.int32_list(name) for name in fields._values}

    def object_map(self, key: str) -> dict[str, JsonObject]:
        """Empty if the field is null or missing."""
        return {
            name: self._to_json_object(value, name) for name, value in self._object(key).items()
        }

    def object_list(self, key: str) -> list[JsonObject]:
        return [self._to_json_object(value, key) for value in self._array(key)]

    def fields_except(self, known: Collection[str]) -> dict[str, Any]:
        """Return all fields except ``known``."""
        return {key: value for key, value in self._values.items() if key not in known}

    def raise_corrupt(self, reason: str) -> NoReturn:
        raise CorruptPayload(self.path, reason)

    def _check_int32(self, value: Any, key: str) -> int:
        # isinstance() would accept a bool.
        if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
            self.raise_corrupt(f"{key} is not a 32-bit integer: {shortened(value)}")
        return value

    def _check_text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            self.raise_corrupt(f"{key} is not a string: {shortened(value)}")
        return value

    def _array(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if not isinstance(value, list):
            self.raise_corrupt(f"{key} is not an array: {shortened(value)}")
        return value

    def _object(self, key: str) -> dict[str, Any]:
        value = self._values.get(key)
        return self._to_json_object({} if value is None else value, key)._values

    def _to_json_object(self, value: Any, key: str) -> JsonObject:
        if not isinstance(value, dict):
            self.raise_corrupt(f"{key} is not an object: {shortened(value)}")
        return JsonObject(value, self.path)


def parse_json(value: bytes, path: str) -> Any:
    try:
        text = value.decode()
        parsed = _DECODER.decode(text)
        if "\\u" in text:
            _ENCODER.encode(parsed).encode()  # fails for half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise CorruptPayload(path, f"not JSON: {error}") from error
    return parsed


def write_json(known: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
    assert not known.keys() & extra.keys(), (known, extra)
    return _JACKSON_ESCAPES.sub(_escape_like_jackson, _ENCODER.encode({**known, **extra})).encode()


def parse_number(value: bytes, path: str, *, max_value: int) -> int:
    """Parse a value that is a non-negative number and nothing else."""
    if not _DIGITS.fullmatch(value) or int(value) > max_value:
        raise CorruptPayload(path, f"not a number up to {max_value}: {shortened(value)}")
    return int(value)


def _parse_finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _escape_like_jackson(match: re.Match[str]) -> str:
    piece = match[0]
    if piece.startswith("\\u"):
        return "\\u" + piece[2:].upper()
    return piece if piece.startswith("\\") else _escape_surrogates(piece)


def _escape_surrogates(character: str) -> str:
    high, low = divmod(ord(character) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


_DIGITS = re.compile(rb"[0-9]{1,19}")
_DECODER = json.JSONDecoder(parse_float=_parse_finite, parse_constant=_reject_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

# Kafka's JSON library (Jackson) writes \u001F where Python writes \u001f, and escapes characters
# beyond U+FFFF.  The pattern also matches an escaped backslash, to skip the character after it.
_JACKSON_ESCAPES = re.compile(r"\\\\|\\u[0-9a-f]{4}|[\U00010000-\U0010FFFF]")
