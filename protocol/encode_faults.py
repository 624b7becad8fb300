"""Finds the field of a message that cannot be encoded, and the reason.

The generated functions contain few checks, because they run a million times a second, and they do
not track array indexes.  When one fails, this module walks over the declaration and names the
field: ``topics[3].partitions[0].index``.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.protocol.buffers import is_contiguous_bytes, short_repr
from odradek.protocol.field import (
    BOOL,
    RECORDS,
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
from odradek.protocol.wire import AS_BIT, RECORD_TYPES, STRING_BYTES_MAX, TAG_MAX


def find_fault(message: Message, version: int) -> str | None:
    """Return ``field: the reason``, or None if every field can be encoded."""
    finder = _FaultFinder(version, flexible=version in message.__schema__.flexible)
    return finder.fault_of_struct(message, "")


class _FaultFinder:
    """Checks all fields of a message in the order of their declaration."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def fault_of_struct(self, value: Struct, path: str) -> str | None:
        prefix = f"{path}." if path else ""
        for field in value.__schema__.fields:
            field_path = prefix + field.name
            fault = self._fault_of_field(field, getattr(value, field.name), field_path)
            if fault is not None:
                return fault
        return self._fault_of_unknown_tags(value, f"{prefix}unknown_tags")

    def _fault_of_field(self, field: Field, value: Any, path: str) -> str | None:
        if self._version not in field.versions:
            return self._fault_of_absent(field, value, path)
        if value is None:
            is_nullable = self._version in field.nullable
            return None if is_nullable else f"{path}: null, but must have a value"
        return self._fault_of_value(field.type, value, path)

    def _fault_of_absent(self, field: Field, value: Any, path: str) -> str | None:
        default = default_value(field)
        is_default = value is not None and not value if default == [] else value == default
        if field.ignorable or is_default:
            return None
        return f"{path}: version {self._version} cannot carry it, and it is not at its default"

    def _fault_of_value(self, wire_type: WireType, value: Any, path: str) -> str | None:
        match wire_type:
            case Primitive():
                return _fault_of_number(wire_type, value, path)
            case Array(element):
                return self._fault_of_elements(element, value, path)
            case Nested(struct=declared):
                if not isinstance(value, declared):
                    return f"{path}: {short_repr(value)} is not a {declared.__qualname__}"
                return self.fault_of_struct(value, path)
        if wire_type is STRING:
            return _fault_of_string(value, path)
        return _fault_of_bytes(value, path, is_records=wire_type is RECORDS)

    def _fault_of_elements(self, element: WireType, value: Any, path: str) -> str | None:
        if (
            isinstance(value, str)
            or not hasattr(value, "__len__")
            or not hasattr(value, "__iter__")
        ):
            return f"{path}: {short_repr(value)} is not a list"
        for index, item in enumerate(value):
            if item is None:
                return f"{path}[{index}]: null, but must have a value"
            fault = self._fault_of_value(element, item, f"{path}[{index}]")
            if fault is not None:
                return fault
        return None

    def _fault_of_unknown_tags(self, value: Struct, path: str) -> str | None:
        if not value.unknown_tags:
            return None
        if not self._flexible:
            return f"{path}: version {self._version} has no tagged fields"
        if not isinstance(value.unknown_tags, (tuple, list)):
            return f"{path}: {short_repr(value.unknown_tags)} is not a tuple of tags"
        seen = {f.tag for f in value.__schema__.fields if self._version in f.versions}
        for entry in value.unknown_tags:
            fault = _fault_of_unknown_tag(entry, seen)
            if fault is not None:
                return f"{path}: {fault}"
            seen.add(entry[0])
        return None


def _fault_of_unknown_tag(entry: Any, seen: set[int | None]) -> str | None:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        return f"{short_repr(entry)} is not a pair of tag and bytes"
    tag, content = entry
    if not isinstance(tag, int) or not 0 <= tag <= TAG_MAX:
        return f"{short_repr(tag)} is not a tag"
    if tag in seen:
        return f"tag {tag} is given twice, or declared in this version"
    return (
        None if is_contiguous_bytes(content) else f"tag {tag}: {short_repr(content)} is not bytes"
    )


def _fault_of_number(primitive: Primitive, value: Any, path: str) -> str | None:
    if primitive is UUID:
        return None if value.__class__ is Uuid else f"{path}: {short_repr(value)} is not a Uuid"
    try:
        if primitive is BOOL:
            value = AS_BIT[value]
        struct.pack(">" + primitive.code, value)
    except (struct.error, TypeError, KeyError, OverflowError):
        return f"{path}: {short_repr(value)} is not of type {primitive.name}"
    return None


def _fault_of_string(value: Any, path: str) -> str | None:
    if not isinstance(value, str):
        return f"{path}: {short_repr(value)} is not a string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError as error:
        return f"{path}: {error.reason} at character {error.start}"
    if length > STRING_BYTES_MAX:
        return f"{path}: {length} bytes exceed {STRING_BYTES_MAX}"
    return None


def _fault_of_bytes(value: Any, path: str, *, is_records: bool) -> str | None:
    if is_contiguous_bytes(value) or (is_records and value.__class__ in RECORD_TYPES):
        return None
    reason = "neither bytes nor a file region" if is_records else "not bytes"
    return f"{path}: {short_repr(value)} is {reason}"
