"""Every field of a message, however deep, and messages in which just one field is set."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from odradek.protocol.field import BOOL, BYTES, RECORDS, UUID, Array, Field, Nested, WireType
from odradek.protocol.schema import Message, Struct, default_value
from odradek.protocol.types import Uuid
from tests.support.all_messages import message_named, versions_of
from tests.support.kafka_json import default_to_json
from tests.support.message_values import defaults
from tests.support.message_vectors import FieldVector

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class PlacedField:
    """A field, and the fields that it lies in, the outermost first."""

    field: Field
    around: tuple[Field, ...]

    @property
    def path(self) -> str:
        return ".".join(field.name for field in (*self.around, self.field))

    def is_reached_in(self, version: int) -> bool:
        """Whether the struct that has the field travels."""
        return all(version in field.versions for field in self.around)

    def travels_in(self, version: int) -> bool:
        return self.is_reached_in(version) and version in self.field.versions


def placed_fields(message: type[Message], around: tuple[Field, ...] = ()) -> Iterator[PlacedField]:
    struct = _struct_inside(around[-1].type) if around else message
    for field in struct.__schema__.fields:
        yield PlacedField(field, around)
        if _struct_inside(field.type) is not None:
            yield from placed_fields(message, (*around, field))


def message_with(message: type[Message], placed: PlacedField, value: Any) -> Message:
    """All at its defaults but for one field, and one element in each array on the way to it."""
    return _struct_with(message, placed.path.split("."), value)


def _struct_with(struct: type[S], names: list[str], value: Any) -> S:
    built = defaults(struct)
    name, *rest = names
    if rest:
        wire_type = next(field.type for field in struct.__schema__.fields if field.name == name)
        inner = _struct_with(_struct_inside(wire_type), rest, value)
        value = [inner] if isinstance(wire_type, Array) else inner
    setattr(built, name, value)
    return built


def other_than_default(field: Field) -> Any:
    default = default_value(field)
    if isinstance(field.type, Nested):
        return _changed(field.type.struct) if default is not None else defaults(field.type.struct)
    if isinstance(field.type, Array):
        return [_element(field.type.element)]
    if field.type is BOOL:
        return not default
    if field.type is UUID:
        return Uuid(b"\1" * 16)
    if field.type in (BYTES, RECORDS):
        return b"other"
    return "other" if default is None or isinstance(default, str) else 7


def _changed(struct: type[S]) -> S:
    changed = defaults(struct)
    first = struct.__schema__.fields[0]
    setattr(changed, first.name, other_than_default(first))
    return changed


def _element(wire_type: WireType) -> Any:
    if isinstance(wire_type, Nested):
        return defaults(wire_type.struct)
    assert not isinstance(wire_type, Array), "no API has an array of arrays"
    return wire_type.default


def disagreements(placed: PlacedField, vector: FieldVector) -> list[str]:
    """What Kafka says of a field and our declaration does not."""
    field, found = placed.field, []
    if default_to_json(field) != vector.default:
        found.append(f"its default is {vector.default!r}, not {default_to_json(field)!r}")
    versions = filter(placed.travels_in, versions_of(message_named(vector.message)))
    nullable = [version for version in versions if version in field.nullable]
    if nullable != vector.nullable_in:
        found.append(f"it is nullable in {vector.nullable_in}, not in {nullable}")
    if field.ignorable and vector.refused_in:
        found.append(f"it is not ignorable: refused in {vector.refused_in}")
    if not field.ignorable and vector.dropped_in:
        found.append(f"it is ignorable: dropped in {vector.dropped_in}")
    return [f"{vector.message}.{vector.path}: {each}" for each in found]


def _struct_inside(wire_type: WireType) -> Any:
    """The struct that the type is, or is an array of; None where there is none."""
    match wire_type:
        case Nested(struct) | Array(Nested(struct)):
            return struct
    return None
