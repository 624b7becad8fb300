"""Export: records to Parquet, partitioned by topic and date, with all their fields.

    partitions  exported partitions: ranges of offsets, records, files
    damage      damaged ranges, which the export does not contain

The directory gets files such as topic=orders/date=2026-11-17/00000-00000000000000001042.parquet,
which Spark, Arrow and others read as one table.  Columns: key, value, headers, timestamp,
timestampType, partition, offset, producerId, producerEpoch, sequence, isTransactional, leaderEpoch,
codec; topic and date from the directories.  The date is that of the timestamp, in UTC.

An export is complete when the file _export.json exists, which is written last.  An interrupted
export has none: run the same command again, which starts from the beginning.  Only one process may
write to a directory at a time.

Examples:
  odradek spark export /var/lib/kafka --topics orders --into /backup/orders-1
  odradek spark export /var/lib/kafka --topics orders --into /backup/orders-2 \\
      --since-export /backup/orders-1
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odradek.spark_jobs.job_runner.job import Job, JobContext, JobFailed
from odradek.spark_jobs.job_runner.result import Result, Table
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    from odradek.spark_jobs.scan.options import ScanOptions
    from odradek.spark_jobs.transfer.export_plan import ExportPlan
    from odradek.spark_jobs.transfer.export_writer import ExportTaskResult
    from odradek.spark_jobs.transfer.manifest import Manifest

DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--into",
        metavar="DIR",
        required=True,
        help="directory or URI of the export; created if it does not exist",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a complete export in the directory"
    )
    parser.add_argument(
        "--since-export",
        metavar="DIR",
        help="export only records after the end offsets of that export",
    )


def run(context: JobContext) -> Result:
    from odradek.spark_jobs.scan.options import parse_options
    from odradek.spark_jobs.transfer import manifest as manifests
    from odradek.spark_jobs.transfer.export_directory import ExportDirectory, absolute_path
    from odradek.spark_jobs.transfer.export_plan import EXPORT_COLUMNS, plan_export
    from odradek.spark_jobs.transfer.export_writer import build_manifest

    target = absolute_path(context.args.into)
    previous = _previous_manifest(context)
    selection = {**context.options, **_starting_offsets_option(context, previous)}
    options = parse_options({**selection, "columns": ",".join(EXPORT_COLUMNS)})
    export_plan = plan_export(options)
    if not export_plan.ranges:
        raise JobFailed("no partition in these directories matches the selection")
    _report_plan(context, export_plan, previous)
    directory = ExportDirectory(target)
    try:
        manifests.begin_export(directory, overwrite=context.args.overwrite)
        results = _write_tasks(context, export_plan, options, target)
        manifest = build_manifest(
            export_plan, results, selection, created_ms=int(time.time() * 1000)
        )
        manifests.finish_export(directory, manifest)
    except OSError as error:
        raise JobFailed(f"{target}: {error}") from error
    context.report_progress(
        f"exported {manifest.records} records in {len(manifest.files)} file(s) to {target}"
    )
    return Result(_result_tables(manifest), exit_status=DAMAGED if manifest.damages else 0)


def _previous_manifest(context: JobContext) -> Manifest | None:
    from odradek.spark_jobs.transfer import manifest as manifests
    from odradek.spark_jobs.transfer.export_directory import absolute_path

    if context.args.since_export is None:
        return None
    if set(context.options) & {"startingOffsets", "startingTimestamp"}:
        raise JobFailed(
            "--since-export: cannot be combined with --starting-offsets or --starting-timestamp"
        )
    return manifests.read_manifest(absolute_path(context.args.since_export))


def _starting_offsets_option(context: JobContext, previous: Manifest | None) -> dict[str, str]:
    from odradek.spark_jobs.transfer.export_plan import starting_offsets_after

    return {} if previous is None else {"startingOffsets": starting_offsets_after(previous)}


def _report_plan(context: JobContext, plan: ExportPlan, previous: Manifest | None) -> None:
    from odradek.spark_jobs.transfer.export_plan import check_continuity

    if previous is not None:
        for line in check_continuity(plan, previous):
            context.report_progress(line)
    size_bytes = sum(task.size_bytes for task in plan.tasks)
    count = len(plan.ranges)
    context.report_progress(
        f"exporting {size_bytes} bytes of {count} partition(s) in {len(plan.tasks)} task(s)"
    )


def _write_tasks(
    context: JobContext, plan: ExportPlan, options: ScanOptions, export_path: str
) -> list[ExportTaskResult]:
    if not plan.tasks:
        return []

    def write(task: Any) -> ExportTaskResult:
        """Run in a Spark worker."""
        with report_missing_packages():
            from odradek.spark_jobs.transfer.export_writer import write_task

            return write_task(task, options, export_path)

    tasks = context.session.sparkContext.parallelize(plan.tasks, len(plan.tasks))
    results: list[ExportTaskResult] = tasks.map(write).collect()
    return results


def _result_tables(manifest: Manifest) -> list[Table]:
    import pyarrow as pa

    columns = ("topic", "partition", "startOffset", "endOffset", "records", "files", "sizeBytes")
    types = (pa.string(), pa.int32(), *[pa.int64()] * 5)
    rows = []
    for exported in manifest.partitions:
        key = (exported.topic, exported.partition)
        files = [file for file in manifest.files if (file.topic, file.partition) == key]
        size_bytes = sum(file.size_bytes for file in files)
        cells = (
            *key,
            exported.start_offset,
            exported.end_offset,
            exported.records,
            len(files),
            size_bytes,
        )
        rows.append(dict(zip(columns, cells, strict=True)))
    schema = pa.schema(list(zip(columns, types, strict=True)))
    tables = [Table("partitions", "Exported partitions", pa.Table.from_pylist(rows, schema))]
    if manifest.damages:
        lines = pa.table({"damage": pa.array(manifest.damages, pa.string())})
        title = "Damaged ranges, which are not in the export"
        tables.append(Table("damage", title, lines, is_damage=True))
    return tables


JOB = Job("export", __doc__ or "", add_arguments, run, reports_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
