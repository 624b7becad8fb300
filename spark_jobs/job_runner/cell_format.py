"""Format of the cells of a table: as JSON, as CSV, and for display.

    type of cell      JSON                    CSV             display
    bytes             "text" or base64        text, escaped   text, escaped
    timestamp         milliseconds            milliseconds    2026-11-17 12:00:00
    number            unchanged               unchanged       1,234,567
      ...Bytes        unchanged               unchanged       1.2 MB
      ...Ms           unchanged               unchanged       1.5 s
      share           unchanged               unchanged       12.3 %
    null              null                    empty           -

Bytes that are not UTF-8 are {"base64": "..."} in JSON, as ``odradek scan`` writes them.

Owner: none; any thread.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def to_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a ``pyarrow.Table``.

    Timestamps become milliseconds, since ``datetime`` ends with the year 9999.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            microseconds = (
                table.column(index).cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            )
            table = table.set_column(index, column.name, pc.divide(microseconds, 1000))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def timestamp_columns(table: Any) -> frozenset[str]:
    """Return the names of the timestamp columns."""
    import pyarrow as pa

    return frozenset(field.name for field in table.schema if pa.types.is_timestamp(field.type))


def to_json(cell: Any) -> Any:
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(cell).decode()}
    if isinstance(cell, list):
        return [to_json(item) for item in cell]
    if isinstance(cell, dict):
        return {name: to_json(item) for name, item in cell.items()}
    return cell


def to_csv(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, list):
        return " ".join(str(to_csv(item)) for item in cell)
    return cell


def format_cell(column: str, cell: Any, *, is_timestamp: bool = False) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return format_timestamp(cell) if is_timestamp else format_number(column, cell)
    return _escape_unprintable(str(to_csv(cell)))


def _escape_unprintable(text: str) -> str:
    """Escape control characters of a key, which a terminal or a page could interpret."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def format_timestamp(milliseconds: float) -> str:
    """Format in UTC; return the number itself if it is out of the range of ``datetime``."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{moment:%f}"[:4] if milliseconds % 1000 else "")


def format_number(column: str, number: float) -> str:
    """Choose the unit by the name of the column."""
    if column.endswith(("Bytes", "bytes")):
        return _format_bytes(number)
    if column.endswith("Ms"):
        return _format_duration(number)
    if column.endswith(("Share", "share")):
        return f"{number * 100:.3g} %"
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}" if column not in _IDENTIFIER_COLUMNS else str(int(number))
    return f"{number:,.3g}" if abs(number) < 1000 else f"{number:,.0f}"


#: Numbers that are identifiers, not amounts: without thousands separators.
_IDENTIFIER_COLUMNS = frozenset(
    {"partition", "producerId", "producerEpoch", "leaderEpoch", "broker"}
)


def _format_bytes(number: float) -> str:
    unit = 0
    while abs(number) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.3g} {_BYTE_UNITS[unit]}"


def _format_duration(milliseconds: float) -> str:
    for size, unit in _DURATION_UNITS:
        if abs(milliseconds) >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds:.3g} ms"
