"""Values of every message in every version: Hypothesis strategies, and small ones out of a seed.

The strategies read the declarations: a field that does not travel holds its default, a nullable one
is null now and then, a tagged one is at its default now and then, and a flexible struct may carry
tags that nobody declared.  Hypothesis shrinks what it finds; what ``small_message`` makes comes
about fifty times faster.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from odradek.protocol.field import (
    BOOL,
    FLOAT64,
    STRING,
    UUID,
    Array,
    Field,
    Nested,
    Primitive,
    WireType,
)
from odradek.protocol.schema import Message, Struct, default_value
from odradek.protocol.types import Uuid
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_values import Recipe, at_random, filled

EVERY_VERSION: list[tuple[type[Message], int]] = [
    (message, version) for message in all_messages() for version in versions_of(message)
]

#: Around the size at which a compact length needs a second byte.
LONG_SIZES = (126, 127, 128, 300)


def structs_of(struct: type[Struct]) -> Iterator[type[Struct]]:
    """The struct and all that its fields hold, at any depth."""
    yield struct
    for field in struct.__schema__.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Nested):
            yield from structs_of(inner.struct)


def declared_tags(struct: type[Struct], version: int) -> set[int]:
    return {
        field.tag
        for field in struct.__schema__.fields
        if field.tag is not None and version in field.versions
    }


def integer_range(primitive: Primitive) -> tuple[int, int]:
    """Both ends included."""
    if primitive.code.isupper():
        return 0, 2 ** (8 * primitive.size) - 1
    half = 2 ** (8 * primitive.size - 1)
    return -half, half - 1


@cache
def messages(message: type[Message], version: int) -> SearchStrategy[Any]:
    return _structs(message, version, version in message.__schema__.flexible)


@cache
def _structs(struct: type[Struct], version: int, flexible: bool) -> SearchStrategy[Any]:
    fields = {field.name: _values(field, version, flexible) for field in struct.__schema__.fields}
    if flexible:
        fields["unknown_tags"] = _unknown_tags(struct, version)
    return st.builds(struct, **fields)


def _values(field: Field, version: int, flexible: bool) -> SearchStrategy[Any]:
    if version not in field.versions:
        return st.builds(default_value, st.just(field))
    values = _values_of_type(field.type, version, flexible)
    if field.tag is not None:
        values = st.builds(default_value, st.just(field)) | values
    return st.none() | values if version in field.nullable else values


def _values_of_type(wire_type: WireType, version: int, flexible: bool) -> SearchStrategy[Any]:
    match wire_type:
        case Array(element):
            return st.lists(_values_of_type(element, version, flexible), max_size=3)
        case Nested(struct):
            declared: type[Struct] = struct
            return _structs(declared, version, flexible)
        case Primitive():
            return _numbers(wire_type)
    long_sizes = st.sampled_from(LONG_SIZES)
    if wire_type is STRING:
        return st.text(max_size=8) | long_sizes.map(lambda size: "x" * size)
    return st.binary(max_size=12) | long_sizes.map(bytes)


def _numbers(primitive: Primitive) -> SearchStrategy[Any]:
    if primitive is BOOL:
        return st.booleans()
    if primitive is FLOAT64:
        return st.floats(allow_nan=False)  # it does not equal itself
    if primitive is UUID:
        return st.binary(min_size=16, max_size=16).map(Uuid)
    return st.integers(*integer_range(primitive))


def _unknown_tags(struct: type[Struct], version: int) -> SearchStrategy[Any]:
    declared = declared_tags(struct, version)
    numbers = st.integers(0, 0x7FFFFFFF).filter(lambda tag: tag not in declared)
    tags = st.dictionaries(numbers, st.binary(max_size=4), max_size=2)
    return tags.map(lambda values: tuple(sorted(values.items())))


def small_message(message: type[Message], version: int, choice: Random) -> Message:
    """A message of few bytes: a change to one of them is likely to hit a length or count."""
    return filled(message, version, _small(choice))


def _small(choice: Random) -> Recipe:
    return replace(
        at_random(choice),
        text=lambda place: "".join(choice.choices("abc-_.é漢🙂", k=choice.randint(0, 6))),
        raw=lambda wire_type, place: choice.randbytes(choice.randint(0, 6)),
        count=lambda element, place: choice.choice((0, 1, 1, 2, 3)),
    )
