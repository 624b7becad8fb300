"""In a worker: read the rows of splits, with the schema that Spark expects.

Skipped damage is logged in the worker's log; ``view=damage`` returns it as rows.

Owner: the caller that iterates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.spark_jobs.scan.damage import Damage
from odradek.spark_jobs.source.source_options import SourceOptions
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.scan.plan import Split

_log = logging.getLogger(__name__)


def read_rows(splits: Iterable[Split], source_options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield rows with exactly the columns, types and nullability of the requested schema."""
    with report_missing_packages():
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark_jobs.scan.scanner import read_split
        from odradek.spark_jobs.source.damage_report import damage_rows

        schema = to_arrow_schema(source_options.schema, timezone="UTC")
        for split in splits:
            if source_options.is_damage_report:
                batches = damage_rows(split, source_options.scan_options)
            else:
                batches = read_split(split, source_options.scan_options, _log_damage)
            for rows in batches:
                arrays = [rows.column(name) for name in schema.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _log_damage(damage: Damage) -> None:
    _log.warning("Skipping damaged range: %s", damage)
