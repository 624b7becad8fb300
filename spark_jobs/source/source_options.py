"""The options of the source: the scanner's options, and those that only Spark has.

    view                    also damage: one row for each damaged range, instead of records
    maxOffsetsPerTrigger    for a stream: the maximum number of offsets in one batch
    startingOffsets         for a stream also latest, which is its default, as in Spark's own
                            Kafka source

The columns are those of the schema, which is given by the user or derived from the options.  Spark
itself prunes no columns for a Python source, so only the columns of the schema are decoded.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from json import loads
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark_jobs.scan.damage import ParseMode, ScanFailed
from odradek.spark_jobs.scan.options import ScanOptions, column_types, parse_options
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    import pyarrow as pa

_DAMAGE_VIEW = "damage"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader reads.  It is pickled to the workers."""

    scan_options: ScanOptions
    schema: StructType
    is_damage_report: bool = False
    starting_offsets: str | None = None  # the option's text
    max_offsets_per_trigger: int | None = None


def default_schema(raw_options: Mapping[str, str]) -> StructType:
    with report_missing_packages():
        options = _RawOptions(raw_options)
        return _spark_schema(options.arrow_schema(options.scan_options()))


def parse_source_options(raw_options: Mapping[str, str], schema: StructType) -> SourceOptions:
    """Parse the options and check the schema against them.  Raises ScanFailed."""
    with report_missing_packages():
        raw = _RawOptions(raw_options)
        scan_options = raw.scan_options(columns=schema.fieldNames())
        _check_types(schema, _spark_schema(raw.arrow_schema(scan_options)))
        return SourceOptions(
            scan_options,
            schema,
            is_damage_report=raw.is_damage_report,
            starting_offsets=raw.starting_offsets,
            max_offsets_per_trigger=raw.max_offsets_per_trigger,
        )


class _RawOptions:
    """The raw options, without those that only Spark has."""

    def __init__(self, raw_options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in raw_options.items()}
        if "paths" in self._options:  # Spark passes load(["a", "b"]) this way
            self._options["path"] = ",".join(loads(self._options.pop("paths")))
        self.is_damage_report = self._options.get("view", "").strip().lower() == _DAMAGE_VIEW
        self._damage_columns = ""
        if self.is_damage_report:
            del self._options["view"]
            self._damage_columns = self._options.pop("columns", "")
        self.starting_offsets = self._options.get("startingoffsets", "").strip() or None
        if self.starting_offsets == "latest":
            del self._options["startingoffsets"]
        self.max_offsets_per_trigger = _parse_positive(
            "maxOffsetsPerTrigger", self._options.pop("maxoffsetspertrigger", None)
        )

    def scan_options(self, *, columns: list[str] | None = None) -> ScanOptions:
        """Parse the scanner's options; ``columns`` of a schema override the column options."""
        if self.is_damage_report:
            return self._damage_scan_options()
        if columns is None:
            return parse_options(self._options)
        if not columns:
            raise ScanFailed("the schema has no columns")
        options = parse_options({**self._options, "columns": ",".join(columns)})
        return replace(options, columns=tuple(columns))

    def _damage_scan_options(self) -> ScanOptions:
        """Return options that decode every column: damage is only found in what is decoded."""
        options = parse_options(self._options)
        if options.mode is ParseMode.DROPMALFORMED:
            raise ScanFailed(
                "view=damage: cannot be combined with mode=DROPMALFORMED, which reports no damage"
            )
        columns = tuple(column_types(options.view, options.content))
        return replace(options, columns=columns, include_control=True)

    def arrow_schema(self, options: ScanOptions) -> pa.Schema:
        from odradek.spark_jobs.scan.scanner import scan_schema
        from odradek.spark_jobs.source.damage_report import damage_schema

        if self.is_damage_report:
            return damage_schema(self._damage_columns)
        return scan_schema(options)


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def _check_types(schema: StructType, expected: StructType) -> None:
    types = {field.name: field.dataType for field in expected}
    for field in schema:
        if field.name not in types:
            names = ", ".join(types)
            raise ScanFailed(f"schema: unknown column {field.name!r}; known columns: {names}")
        if field.dataType != types[field.name]:
            actual, requested = types[field.name].simpleString(), field.dataType.simpleString()
            raise ScanFailed(
                f"schema: column {field.name} is {actual}, not {requested}: cast it after loading"
            )


def _parse_positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) > 0):
        raise ScanFailed(f"{name}={text}: must be an integer above 0")
    return int(text)
