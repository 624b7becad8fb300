r"""Reads and writes records as lines: text formatted by a template, or JSON.

    template   '{key}\t{value}'     with topic, partition, offset, timestamp, key, value, headers
    JSON       {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000,
                "key": null, "value": "text", "headers": [["name", "text"]]}

In JSON, bytes that are not UTF-8 are {"base64": "..."}.  In text, bytes are written unchanged and
null as an empty string.  Only JSON can be read back.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any

from odradek.broker.cli.errors import CommandFailed

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0"}

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """``partition``, ``offset`` and ``timestamp`` (in ms) are None if they are not given."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None


class Template:
    """Formats a record as a line of text."""

    def __init__(self, template: str) -> None:
        """Raise CommandFailed if the template has an unknown field."""
        for escape, character in _ESCAPES.items():
            template = template.replace(escape, character)
        self._format = template
        try:
            self.line(Record(b""))
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            known = ", ".join(f"{{{name}}}" for name in FIELDS)
            raise CommandFailed(f"--format {template!r}: the fields are {known}") from error

    def line(self, record: Record) -> bytes:
        headers = ",".join(f"{name}={_text(value)}" for name, value in record.headers)
        fields = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": "" if record.timestamp is None else record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": headers,
        }
        return (self._format.format_map(fields) + "\n").encode("utf-8", "surrogateescape")


def to_json(record: Record) -> bytes:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_value(record.key),
        "value": json_value(record.value),
        "headers": [[name, json_value(value)] for name, value in record.headers],
    }
    return json.dumps(fields).encode() + b"\n"


def from_json(line: bytes) -> Record:
    """Read a line of ``to_json``; every field but the value may be missing.  Raises ValueError."""
    fields = json.loads(line)
    if not isinstance(fields, dict) or "value" not in fields:
        raise ValueError("a record must be a JSON object with a value")
    unknown = fields.keys() - set(FIELDS)
    if unknown:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    headers = fields.get("headers") or []
    if not all(isinstance(each, list) and len(each) == 2 for each in headers):
        raise ValueError("headers must be pairs of name and value")
    return Record(
        value=_bytes(fields["value"]),
        key=_bytes(fields.get("key")),
        headers=[(str(name), _bytes(value)) for name, value in headers],
        partition=_number(fields, "partition"),
        timestamp=_number(fields, "timestamp"),
    )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "surrogateescape")


def json_value(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str(text):
            return text.encode()
        case {"base64": str(text)}:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"base64: {error}") from error
        case _:
            # A value may be given as JSON itself, without quoting it a second time.
            return json.dumps(value).encode()


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{name} must be a number")
    return value
