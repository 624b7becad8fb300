"""Exports made without Spark, as the job makes them, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from odradek.spark_jobs.scan.options import parse_options
from odradek.spark_jobs.transfer import manifest as manifests
from odradek.spark_jobs.transfer.export_directory import ExportDirectory
from odradek.spark_jobs.transfer.export_plan import EXPORT_COLUMNS, plan_export
from odradek.spark_jobs.transfer.export_writer import build_manifest, write_task
from odradek.spark_jobs.transfer.manifest import Manifest
from tests.support.scans import rows_of


def exported(path: Path, target: Path | str, **options: str) -> Manifest:
    """A whole export of what is in a log directory."""
    chosen = parse_options({**options, "path": str(path), "columns": ",".join(EXPORT_COLUMNS)})
    planned = plan_export(chosen)
    place = ExportDirectory(str(target))
    manifests.begin_export(place, overwrite=False)
    written = [write_task(piece, chosen, str(target)) for piece in planned.tasks]
    manifest = build_manifest(planned, written, options, created_ms=0)
    manifests.finish_export(place, manifest)
    return manifest


def rows_in(target: Path) -> list[dict[str, Any]]:
    """As anybody reads it, by topic, partition and offset; timestamps in milliseconds."""
    found = ds.dataset(str(target), format="parquet", partitioning="hive").to_table()
    rows = [row for batch in found.to_batches() for row in rows_of(batch)]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
