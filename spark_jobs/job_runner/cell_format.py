"""Cells of a table: for a program, in a file of text, and for a person.

    kind of cell      JSON                    CSV             a person
    bytes             "text" or base64        text, escaped   text, escaped
    timestamp         milliseconds            milliseconds    2026-11-17 12:00:00
    number            as it is                as it is        1,234,567
      ...Bytes        as it is                as it is        1.2 MB
      ...Ms           as it is                as it is        1.5 s
      share           as it is                as it is        12.3 %
    nothing           null                    nothing         -

Bytes that are not UTF-8 are {"base64": "..."} in JSON, as ``odradek scan`` writes them.

Owner: none; any thread.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a ``pyarrow.Table``; timestamps as milliseconds, which end with no year 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            since_1970 = table.column(at).cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            table = table.set_column(at, column.name, pc.divide(since_1970, 1000))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def timestamps_of(table: Any) -> frozenset[str]:
    """The names of the columns that are timestamps."""
    import pyarrow as pa

    return frozenset(each.name for each in table.schema if pa.types.is_timestamp(each.type))


def for_json(cell: Any) -> Any:
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(cell).decode()}
    if isinstance(cell, list):
        return [for_json(each) for each in cell]
    if isinstance(cell, dict):
        return {name: for_json(each) for name, each in cell.items()}
    return cell


def for_csv(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, list):
        return " ".join(str(for_csv(each)) for each in cell)
    return cell


def for_a_person(column: str, cell: Any, *, is_timestamp: bool = False) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return in_time(cell) if is_timestamp else in_unit(column, cell)
    return _printable(str(for_csv(cell)))


def _printable(text: str) -> str:
    """A key may have anything in it, and neither a terminal nor a page shall obey it."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def in_time(milliseconds: float) -> str:
    """In UTC; the number itself if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{moment:%f}"[:4] if milliseconds % 1000 else "")


def in_unit(column: str, number: float) -> str:
    """As the name of the column says."""
    if column.endswith(("Bytes", "bytes")):
        return _in_bytes(number)
    if column.endswith("Ms"):
        return _in_duration(number)
    if column.endswith(("Share", "share")):
        return f"{number * 100:.3g} %"
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}" if column not in _NAMES else str(int(number))
    return f"{number:,.3g}" if abs(number) < 1000 else f"{number:,.0f}"


#: Numbers that are names, and not amounts.
_NAMES = frozenset({"partition", "producerId", "producerEpoch", "leaderEpoch", "broker"})


def _in_bytes(number: float) -> str:
    unit = 0
    while abs(number) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.3g} {_BYTE_UNITS[unit]}"


def _in_duration(milliseconds: float) -> str:
    for size, unit in _DURATIONS:
        if abs(milliseconds) >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds:.3g} ms"
