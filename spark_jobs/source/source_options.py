"""What is wanted of the source: the scanner's options, and those that only Spark has.

    view                    damage, too: a row for each damaged range, and none for records
    maxOffsetsPerTrigger    of a stream: no more offsets in one of its batches
    startingOffsets         of a stream: latest, too, and that is its default, as in Spark's own
                            Kafka source

The columns are those of the schema, which is the user's or made of the options: Spark itself drops
none for a source in Python, so only what stands there is decoded.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from json import loads
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark_jobs.scan.damage import Mode, ScanFailed
from odradek.spark_jobs.scan.options import Options, column_types, options_of
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    import pyarrow as pa

_DAMAGE = "damage"


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader reads; travels to the workers."""

    options: Options
    schema: StructType
    is_damage_report: bool = False
    starting_offsets: str | None = None  # as they were given
    max_offsets_per_trigger: int | None = None


def default_schema(given: Mapping[str, str]) -> StructType:
    with needing_wheels():
        told = _Told(given)
        return _spark_schema(told.arrow_schema(told.options()))


def request_of(given: Mapping[str, str], schema: StructType) -> Request:
    """ScanFailed if the options make no sense, or the schema has what there is not."""
    with needing_wheels():
        told = _Told(given)
        options = told.options(columns=schema.fieldNames())
        _check_types(schema, _spark_schema(told.arrow_schema(options)))
        return Request(
            options,
            schema,
            is_damage_report=told.is_damage_report,
            starting_offsets=told.starting_offsets,
            max_offsets_per_trigger=told.max_offsets_per_trigger,
        )


class _Told:
    """The options as they were given, those of Spark's taken out."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        if "paths" in self._given:  # what load(["a", "b"]) makes of it
            self._given["path"] = ",".join(loads(self._given.pop("paths")))
        self.is_damage_report = self._given.get("view", "").strip().lower() == _DAMAGE
        self._damage_columns = ""
        if self.is_damage_report:
            del self._given["view"]
            self._damage_columns = self._given.pop("columns", "")
        self.starting_offsets = self._given.get("startingoffsets", "").strip() or None
        if self.starting_offsets == "latest":
            del self._given["startingoffsets"]
        self.max_offsets_per_trigger = _positive(
            "maxOffsetsPerTrigger", self._given.pop("maxoffsetspertrigger", None)
        )

    def options(self, *, columns: list[str] | None = None) -> Options:
        """``columns`` of a schema stand before all that the options say of columns."""
        if self.is_damage_report:
            return self._options_of_damage()
        if columns is None:
            return options_of(self._given)
        if not columns:
            raise ScanFailed("the schema has no columns")
        options = options_of({**self._given, "columns": ",".join(columns)})
        return replace(options, columns=tuple(columns))

    def _options_of_damage(self) -> Options:
        """Those of a scan that looks at everything: what is not decoded is not found damaged."""
        options = options_of(self._given)
        if options.mode is Mode.DROPMALFORMED:
            raise ScanFailed("view=damage tells of damage, and mode=DROPMALFORMED says nothing")
        columns = tuple(column_types(options.view, options.content))
        return replace(options, columns=columns, include_control=True)

    def arrow_schema(self, options: Options) -> pa.Schema:
        from odradek.spark_jobs.scan.scanner import scan_schema
        from odradek.spark_jobs.source.damage_report import damage_schema

        if self.is_damage_report:
            return damage_schema(self._damage_columns)
        return scan_schema(options)


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def _check_types(schema: StructType, known: StructType) -> None:
    types = {field.name: field.dataType for field in known}
    for field in schema:
        if field.name not in types:
            names = ", ".join(types)
            raise ScanFailed(f"schema: no column is called {field.name!r}; there are {names}")
        if field.dataType != types[field.name]:
            found, wanted = types[field.name].simpleString(), field.dataType.simpleString()
            raise ScanFailed(f"schema: column {field.name} is {found}, not {wanted}: cast it later")


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) > 0):
        raise ScanFailed(f"{name}: not a number above 0: {text}")
    return int(text)
