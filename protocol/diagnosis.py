"""Which field of a message cannot be encoded, and why?

The compiled functions carry no checks that succeed a million times a second.  When one fails,
this walk over the declaration finds the culprit and names it.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.protocol.field import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Nested,
    Primitive,
    WireType,
)
from odradek.protocol.schema import Struct
from odradek.protocol.types import Uuid
from odradek.protocol.wire import STRING_BYTES_MAX


def find_fault(value: Struct, version: int, path: str = "") -> str | None:
    """``field: what is wrong with it``, or None when every field could be written."""
    for field in value.__schema__.fields:
        place = f"{path}.{field.name}" if path else field.name
        if version in field.versions:
            fault = _fault_of_field(field, getattr(value, field.name), version, place)
            if fault is not None:
                return fault
    return None


def _fault_of_field(field: Field, value: Any, version: int, place: str) -> str | None:
    if value is None:
        return None if version in field.nullable else f"{place}: null, but must have a value"
    return _fault_of_value(field.type, value, version, place)


def _fault_of_value(wire_type: WireType, value: Any, version: int, place: str) -> str | None:
    match wire_type:
        case Primitive():
            return _fault_of_number(wire_type, value, place)
        case Array(element):
            return _fault_of_elements(element, value, version, place)
        case Nested(struct=declared):
            if not isinstance(value, declared):
                return f"{place}: {value!r} is no {declared.__qualname__}"
            return find_fault(value, version, place)
    if wire_type is STRING:
        return _fault_of_string(value, place)
    assert wire_type in (BYTES, RECORDS), wire_type
    return _fault_of_bytes(value, place)


def _fault_of_number(primitive: Primitive, value: Any, place: str) -> str | None:
    if primitive is UUID:
        return None if isinstance(value, Uuid) else f"{place}: {value!r} is no Uuid"
    if primitive is BOOL:
        return None if isinstance(value, bool) else f"{place}: {value!r} is no bool"
    try:
        struct.pack(">" + primitive.code, value)
    except (struct.error, TypeError) as error:
        return f"{place}: {value!r} is no {primitive.name} ({error})"
    return None


def _fault_of_elements(element: WireType, value: Any, version: int, place: str) -> str | None:
    if not isinstance(value, (list, tuple)):
        return f"{place}: {value!r} is no list"
    for slot, item in enumerate(value):
        if item is None:
            return f"{place}[{slot}]: null, but must have a value"
        fault = _fault_of_value(element, item, version, f"{place}[{slot}]")
        if fault is not None:
            return fault
    return None


def _fault_of_string(value: Any, place: str) -> str | None:
    if not isinstance(value, str):
        return f"{place}: {value!r} is no string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError as error:
        return f"{place}: {error}"
    if length > STRING_BYTES_MAX:
        return f"{place}: {length} bytes exceed {STRING_BYTES_MAX}"
    return None


def _fault_of_bytes(value: Any, place: str) -> str | None:
    if not hasattr(value, "__len__") or isinstance(value, str):
        return f"{place}: {value!r} is neither bytes nor a region of a file"
    return None
