"""Messages filled with values, one recipe for each kind of value worth trying.

``filled(message, version, recipe)`` gives every field that travels in the version a value; the
others keep their defaults.  A value depends on the place of the field and not on the version, so
that recorded messages differ from version to version only in what the versions differ in.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

from odradek.protocol.field import (
    BOOL,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Nested,
    Primitive,
    VariableLength,
    WireType,
)
from odradek.protocol.schema import Message, Struct, default_value
from odradek.protocol.types import ZERO_UUID, Uuid

#: One record with key, value and a header, as a producer sends it.
RECORD_BATCH = bytes.fromhex(
    "000000000000000000000044000000000216c8334a0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000124000000066b65790a76616c75650202680231"
)

#: Characters of one to four bytes in UTF-8; a compact length takes two bytes to say 300.
LONG_TEXT = 'a\0"\\é€\U0001f40d' * 22 + "0123456789abcd"
assert len(LONG_TEXT.encode()) == 300

MANY = 130  # more than a compact count of one byte can say
KNOWN_ERROR_CODES = 60

#: No message has these yet (Kafka refuses a tag of another version), and Kafka keeps 2**31 - 1.
FREE_TAGS = (9, 127, 128, 70_000, 2**31 - 2)

Tags = tuple[tuple[int, bytes], ...]
S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to choose the values of one message; ``place`` is the path of a field in it."""

    number: Callable[[Primitive, str], Any]
    text: Callable[[str], str]
    raw: Callable[[VariableLength, str], bytes]
    count: Callable[[WireType, str], int]
    is_null: Callable[[WireType], bool] = lambda wire_type: False
    unknown_tags: Callable[[], Tags] = lambda: ()


def defaults(message: type[S]) -> S:
    return message(**{field.name: default_value(field) for field in message.__schema__.fields})


def filled(message: type[Message], version: int, recipe: Recipe) -> Message:
    return _Filling(version, version in message.__schema__.flexible, recipe).struct(message, "")


@dataclass(frozen=True, slots=True)
class _Filling:
    version: int
    is_flexible: bool
    recipe: Recipe

    def struct(self, struct: type[S], place: str) -> S:
        fields = struct.__schema__.fields
        values = {
            field.name: self._field(field, f"{place}.{field.name}")
            if self.version in field.versions
            else default_value(field)
            for field in fields
        }
        tags = self.recipe.unknown_tags() if self.is_flexible else ()
        return struct(**values, unknown_tags=tags)

    def _field(self, field: Field, place: str) -> Any:
        if self.version in field.nullable and self.recipe.is_null(field.type):
            return None
        return self._value(field.type, place)

    def _value(self, wire_type: WireType, place: str) -> Any:
        match wire_type:
            case Array(element):
                count = self.recipe.count(element, place)
                return [self._value(element, f"{place}[{slot}]") for slot in range(count)]
            case Nested(struct):
                return self.struct(struct, place)
            case Primitive():
                return self.recipe.number(wire_type, place)
        if wire_type is STRING:
            return self.recipe.text(place)
        return self.recipe.raw(wire_type, place)


# What a broker might really be sent.


def _typical_number(primitive: Primitive, place: str) -> Any:
    chance = crc32(place.encode())
    if primitive is BOOL:
        return chance % 2 == 1
    if primitive is FLOAT64:
        return chance / 1000
    if primitive is UUID:
        return Uuid(chance.to_bytes(4, "big") * 4)
    if place.endswith("error_code"):
        return chance % KNOWN_ERROR_CODES
    if primitive.size == 8:
        return 1_700_000_000_000 + chance % 100_000_000
    return chance % 100 if primitive.size == 1 else chance % 30_000


def _typical_text(place: str) -> str:
    return f"{place.rsplit('.', 1)[-1]}-{crc32(place.encode()) % 100}"


def _typical_raw(wire_type: VariableLength, place: str) -> bytes:
    return RECORD_BATCH if wire_type is RECORDS else place.encode()


def _two(element: WireType, place: str) -> int:
    return 2


def _one(element: WireType, place: str) -> int:
    return 1


TYPICAL = Recipe(_typical_number, _typical_text, _typical_raw, _two)


# The ends of every range.


def _least_number(primitive: Primitive, place: str) -> Any:
    if primitive is BOOL:
        return False
    if primitive is FLOAT64:
        return -1.7976931348623157e308
    if primitive is UUID:
        return ZERO_UUID
    return 0 if primitive.code.isupper() else -(2 ** (8 * primitive.size - 1))


def _greatest_number(primitive: Primitive, place: str) -> Any:
    if primitive is BOOL:
        return True
    if primitive is FLOAT64:
        return 1.7976931348623157e308
    if primitive is UUID:
        return Uuid(b"\xff" * 16)
    return 2 ** (8 * primitive.size - (not primitive.code.isupper())) - 1


LEAST = Recipe(_least_number, lambda place: "", lambda wire_type, place: b"", _one)

GREATEST = Recipe(
    _greatest_number,
    lambda place: LONG_TEXT,
    lambda wire_type, place: RECORD_BATCH * 2,
    lambda element, place: MANY if isinstance(element, Primitive) else 2,
)

#: The same but for its numbers, which peers with richer types than numbers may refuse.
LONG = replace(GREATEST, number=_typical_number)

#: Many elements in the outermost arrays, and little in each.
MANY_ELEMENTS = Recipe(
    _least_number,
    lambda place: "",
    lambda wire_type, place: b"",
    lambda element, place: 0 if "[" in place else MANY,
)

#: As much as a string can hold, and counts that take a varint of three bytes.
LONGEST = Recipe(
    _greatest_number,
    lambda place: "s" * 32_767,
    lambda wire_type, place: bytes(20_000),
    lambda element, place: 20_000 if isinstance(element, Primitive) else 1,
)


# What need not be there.


def _is_leaf(wire_type: WireType) -> bool:
    return isinstance(wire_type, VariableLength)


NULL_LEAVES = replace(TYPICAL, is_null=_is_leaf)
NULLS = replace(TYPICAL, is_null=lambda wire_type: True)


UNKNOWN_TAGS = replace(
    TYPICAL, unknown_tags=lambda: ((FREE_TAGS[0], b""), (FREE_TAGS[2], bytes(range(200))))
)


#: The recipes of recorded messages.  Not ``LONGEST``, which is for a few.
RECIPES = {
    "typical": TYPICAL,
    "least": LEAST,
    "greatest": GREATEST,
    "many elements": MANY_ELEMENTS,
    "nulls": NULLS,
    "null leaves": NULL_LEAVES,
    "unknown tags": UNKNOWN_TAGS,
}


# Anything.


def at_random(choice: random.Random) -> Recipe:
    """Values from all over their ranges, and their ends more often than by chance."""
    return Recipe(
        partial(_random_number, choice),
        partial(_random_text, choice),
        partial(_random_raw, choice),
        partial(_random_count, choice),
        is_null=lambda wire_type: choice.random() < 0.3,
        unknown_tags=partial(_random_tags, choice),
    )


def _random_number(choice: random.Random, primitive: Primitive, place: str) -> Any:
    if primitive is UUID:
        return Uuid(choice.randbytes(16))
    least, greatest = _least_number(primitive, place), _greatest_number(primitive, place)
    if primitive is BOOL:
        return choice.choice((least, greatest))
    if primitive is FLOAT64:
        return choice.choice((least, greatest, 0.0, -0.0, 5e-324, choice.random()))
    return choice.choice((least, greatest, max(least, -1), 0, choice.randint(least, greatest)))


def _random_text(choice: random.Random, place: str) -> str:
    length = choice.choice((0, 1, 5, 40, 126, 127, 128, 400))
    return "".join(
        choice.choices('ab \0\n"\x7f\x80é\u07ff\u0800€\uffff\U00010000\U0010ffff', k=length)
    )


def _random_raw(choice: random.Random, wire_type: VariableLength, place: str) -> bytes:
    return choice.randbytes(choice.choice((0, 1, 10, 126, 127, 128, 300)))


def _random_count(choice: random.Random, element: WireType, place: str) -> int:
    return choice.choice((0, 1, 2, 127, 128, 300) if isinstance(element, Primitive) else (0, 1, 3))


def _random_tags(choice: random.Random) -> Tags:
    count = choice.choice((0, 0, 0, 1, 3))
    tags = sorted(choice.sample(FREE_TAGS, count))
    return tuple((tag, choice.randbytes(choice.choice((0, 3, 200)))) for tag in tags)
