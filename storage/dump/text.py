"""Formats the items of a dump as lines of text.

    orders-0/00000000000000000000.log: batches, base offset 0, 327 bytes
      0: offsets 0 to 2, 3 records, 151 bytes, gzip, max CreateTime 2020-09-13T12:26:40.007Z, ...
        0  2020-09-13T12:26:40.000Z  key "orders"  value null

A line begins with the origin of the item: the position of a batch, the slot of an index entry, the
offset of a record.  Bytes that are not text are printed in hexadecimal.

Owner: none; holds no state, any thread.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from odradek.storage.dump.items import DumpItem

Values = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIMESTAMP = -1


def format_line(item: DumpItem) -> str:
    """Return the line without its newline; ``file`` and ``damage`` items contain the file name."""
    return _FORMATTERS[item.kind](item.values)


def _file(values: Values) -> str:
    base = "" if values["base_offset"] is None else f", base offset {values['base_offset']}"
    return f"{values['file']}: {values['content']}{base}, {_format_bytes(values['size_bytes'])}"


def _batch(values: Values) -> str:
    return f"  {values['position']}: " + ", ".join(_batch_parts(values))


def _batch_parts(values: Values) -> Iterator[str]:
    first, last = values["base_offset"], values["last_offset"]
    yield f"offsets up to {last}" if first is None else _format_range("offset", first, last)
    if values["count"] is not None:
        yield "1 record" if values["count"] == 1 else f"{values['count']} records"
    yield _format_bytes(values["size_bytes"])
    if values["magic"] != 2:
        yield f"magic {values['magic']}"
    if values["codec"] != "none":
        yield values["codec"] or "unknown codec"
    yield from _timestamp_parts(values)
    if values["partition_leader_epoch"] >= 0:
        yield f"leader epoch {values['partition_leader_epoch']}"
    if values["producer_id"] >= 0:
        yield _producer_of_batch(values)
    yield from (flag for flag in ("transactional", "control") if values[f"is_{flag}"])
    yield f"checksum {values['checksum']:08x}" + ("" if values["is_valid"] else " WRONG")


def _timestamp_parts(values: Values) -> Iterator[str]:
    largest = values["max_timestamp"]
    if largest is not None and largest != _NO_TIMESTAMP:
        label = (
            "LogAppendTime" if values["timestamp_type"] == "log_append_time" else "max CreateTime"
        )
        yield f"{label} {_format_timestamp(largest)}"
    if values["delete_horizon_ms"] is not None:
        yield f"delete horizon {_format_timestamp(values['delete_horizon_ms'])}"


def _producer_of_batch(values: Values) -> str:
    producer = f"producer {values['producer_id']} epoch {values['producer_epoch']}"
    if values["base_sequence"] < 0:
        return producer
    return (
        f"{producer} {_format_range('sequence', values['base_sequence'], values['last_sequence'])}"
    )


def _record(values: Values) -> str:
    return "  ".join((f"    {values['offset']}", *_record_parts(values)))


def _record_parts(values: Values) -> Iterator[str]:
    if values["timestamp"] != _NO_TIMESTAMP:
        yield _format_timestamp(values["timestamp"])
    decoded = values.get("decoded")
    if values.get("control") is not None:
        yield _control(values["control"])
    elif decoded is not None:
        yield _part(decoded["key"])
        yield "deleted" if decoded["value"] is None else _part(decoded["value"])
    else:
        yield f"key {_format_value(values['key'])}"
        yield f"value {_format_value(values['value'])}"
    for header in values["headers"]:
        yield f"header {_format_value(header['key'])} {_format_value(header['value'])}"


def _control(control: Values) -> str:
    kind, *rest = (
        f"{name.replace('_', ' ')} {_format_value(value)}" if name != "type" else str(value)
        for name, value in control.items()
    )
    return ", ".join((kind, *rest))


def _part(part: Values) -> str:
    return (
        f"{part['type']} v{part['version']} {_format_value(part.get('fields', part.get('bytes')))}"
    )


def _index_entry(values: Values) -> str:
    return f"  {values['slot']}: offset {values['offset']} at position {values['log_position']}"


def _time_index_entry(values: Values) -> str:
    return (
        f"  {values['slot']}: {_format_timestamp(values['timestamp'])} at offset {values['offset']}"
    )


def _aborted_transaction(values: Values) -> str:
    return (
        f"  {values['slot']}: producer {values['producer_id']} aborted offsets "
        f"{values['first_offset']} to {values['last_offset']}, "
        f"last stable offset {values['last_stable_offset']}"
    )


def _producer(values: Values) -> str:
    parts = [f"producer {values['producer_id']} epoch {values['producer_epoch']}"]
    last, delta = values["last_offset"], values["offset_delta"]
    if last >= 0:
        offsets = _format_range("offset", last - delta, last)
        parts.append(f"{offsets}, last sequence {values['last_sequence']}")
    parts.append(_format_timestamp(values["last_timestamp"]))
    if values["coordinator_epoch"] >= 0:
        parts.append(f"coordinator epoch {values['coordinator_epoch']}")
    if values["transaction_first_offset"] >= 0:
        parts.append(f"ongoing transaction from offset {values['transaction_first_offset']}")
    return "  " + ", ".join(parts)


def _leader_epoch(values: Values) -> str:
    return f"  epoch {values['epoch']} from offset {values['start_offset']}"


def _partition_offset(values: Values) -> str:
    return f"  {values['topic']}-{values['partition']}: {values['offset']}"


def _named_values(values: Values) -> str:
    parts = (f"{name} {_format_value(value)}" for name, value in values.items() if name != "file")
    return "  " + ", ".join(parts)


def _text_line(values: Values) -> str:
    return f"  line {values['line']}: {_format_value(values['text'])}"


def _preallocated_space(values: Values) -> str:
    return f"  {values['position']}: {_format_bytes(values['size_bytes'])} of preallocated zeros"


def _note(values: Values) -> str:
    location = "" if values["position"] is None else f"{values['position']}: "
    return f"  {location}{values['why']}"


def _damage(values: Values) -> str:
    location = values["file"]
    if values["line"] is not None:
        location += f", line {values['line']}"
    elif values["position"] is not None:
        location += f", position {values['position']}"
    return f"damage: {location}: {values['why']}"


_FORMATTERS: Mapping[str, Callable[[Values], str]] = {
    "file": _file,
    "batch": _batch,
    "record": _record,
    "index_entry": _index_entry,
    "time_index_entry": _time_index_entry,
    "aborted_transaction": _aborted_transaction,
    "producer": _producer,
    "leader_epoch": _leader_epoch,
    "partition_offset": _partition_offset,
    "partition_metadata": _named_values,
    "meta_properties": _named_values,
    "clean_shutdown": _named_values,
    "line": _text_line,
    "room": _preallocated_space,
    "note": _note,
    "damage": _damage,
}


def _format_range(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"


def _format_bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _format_timestamp(timestamp: int) -> str:
    """Return the number itself for a time outside the calendar's range."""
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_value(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return f"0x{b64decode(value['base64']).hex()}"
    return json.dumps(value, ensure_ascii=False)
