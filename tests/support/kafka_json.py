"""A message as the JSON that Kafka's own converters speak, and back.

A field bears Kafka's name for it.  Ids are in base64url, bytes and record data in base64; a tagged
field at its default is left out.  Tags that the version does not know are pairs of tag and base64
under ``unknownTaggedFields``, which Kafka's converters lack and ``Oracle.java`` adds.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, TypeVar

from odradek.protocol.field import BYTES, RECORDS, UUID, Array, Field, Nested, WireType
from odradek.protocol.schema import Struct, default_value
from odradek.protocol.types import Uuid

UNKNOWN_TAGS = "unknownTaggedFields"

#: Names in which a capital letter is not the beginning of a word of ours.
NAMES_OF_KAFKA = {
    "enable_2pc": "enable2Pc",
    "kraft_version": "kRaftVersion",
    "kraft_version_feature": "kRaftVersionFeature",
    "is_kraft_controller": "isKRaftController",
}

S = TypeVar("S", bound=Struct)


def to_json(value: Struct, version: int) -> dict[str, Any]:
    """The fields that travel in this version."""
    shown = {
        kafka_name(field.name): _shown(field.type, getattr(value, field.name), version)
        for field in value.__schema__.fields
        if version in field.versions and not _is_left_out(field, getattr(value, field.name))
    }
    if value.unknown_tags:
        shown[UNKNOWN_TAGS] = [[tag, b64encode(raw).decode()] for tag, raw in value.unknown_tags]
    return shown


def from_json(struct: type[S], version: int, shown: Mapping[str, Any]) -> S:
    """The message that ``to_json`` shows so; what does not travel has its default."""
    values = {
        field.name: _parsed(field.type, shown[kafka_name(field.name)], version)
        if version in field.versions and kafka_name(field.name) in shown
        else default_value(field)
        for field in struct.__schema__.fields
    }
    tags = tuple((tag, b64decode(raw)) for tag, raw in shown.get(UNKNOWN_TAGS, ()))
    return struct(**values, unknown_tags=tags)


def default_to_json(field: Field) -> Any:
    """Of an array or a struct only whether it is null: an empty list stands for either."""
    default = default_value(field)
    if isinstance(field.type, (Array, Nested)):
        return None if default is None else []
    return _shown(field.type, default, version=0)


def kafka_name(attribute: str) -> str:
    if attribute in NAMES_OF_KAFKA:
        return NAMES_OF_KAFKA[attribute]
    first, *others = attribute.split("_")
    return first + "".join(word.capitalize() for word in others)


def _is_left_out(field: Field, value: Any) -> bool:
    return field.tag is not None and value == default_value(field)


def _shown(wire_type: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    match wire_type:
        case Array(element):
            return [_shown(element, each, version) for each in value]
        case Nested():
            return to_json(value, version)
    if wire_type is UUID:
        return str(value)
    return b64encode(value).decode() if wire_type in (BYTES, RECORDS) else value


def _parsed(wire_type: WireType, shown: Any, version: int) -> Any:
    if shown is None:
        return None
    match wire_type:
        case Array(element):
            return [_parsed(element, each, version) for each in shown]
        case Nested(struct):
            return from_json(struct, version, shown)
    if wire_type is UUID:
        return Uuid.parse(shown)
    return b64decode(shown) if wire_type in (BYTES, RECORDS) else shown
