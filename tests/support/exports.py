"""Exports made without Spark, as the job makes them, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from odradek.spark_jobs.scan.options import options_of
from odradek.spark_jobs.transfer import manifest as manifests
from odradek.spark_jobs.transfer.export_files import manifest_of, write_piece
from odradek.spark_jobs.transfer.export_plan import COLUMNS, plan_export
from odradek.spark_jobs.transfer.manifest import Manifest
from odradek.spark_jobs.transfer.places import Place
from tests.support.scans import rows_of


def exported(path: Path, target: Path | str, **options: str) -> Manifest:
    """A whole export of what is in a log directory."""
    chosen = options_of({**options, "path": str(path), "columns": ",".join(COLUMNS)})
    planned = plan_export(chosen)
    place = Place(str(target))
    manifests.begin(place, overwrite=False)
    written = [write_piece(piece, chosen, str(target)) for piece in planned.pieces]
    manifest = manifest_of(planned, written, options, created_ms=0)
    manifests.finish(place, manifest)
    return manifest


def rows_in(target: Path) -> list[dict[str, Any]]:
    """As anybody reads it, by topic, partition and offset; timestamps in milliseconds."""
    found = ds.dataset(str(target), format="parquet", partitioning="hive").to_table()
    rows = [row for batch in found.to_batches() for row in rows_of(batch)]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
