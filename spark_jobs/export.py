"""Export: records to Parquet, partitioned by topic and date, with all their fields.

    partitions  what was exported: ranges of offsets, records, files
    damage      what could not be read, and is not in it

The directory gets files such as topic=orders/date=2026-11-17/00000-00000000000000001042.parquet,
which Spark, Arrow and others read as one table.  Columns: key, value, headers, timestamp,
timestampType, partition, offset, producerId, producerEpoch, sequence, isTransactional, leaderEpoch,
codec; topic and date from the directories.  The date is that of the timestamp, in UTC.

An export is whole when the file _export.json is there, which is written last.  One that was broken
off has none: run the same command again, and it begins anew.  One at a time may write to a
directory.

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

from odradek.spark_jobs.running.job import Call, Job, JobFailed
from odradek.spark_jobs.running.result import Result, Table
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    from odradek.spark_jobs.scan.options import Options
    from odradek.spark_jobs.transfer.export_files import WrittenPiece
    from odradek.spark_jobs.transfer.export_plan import ExportPlan
    from odradek.spark_jobs.transfer.manifest import Manifest

DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--into",
        metavar="DIR",
        required=True,
        help="the directory of the export, or a URI of one; it is made if it is not there",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a whole export that is there"
    )
    parser.add_argument(
        "--since-export",
        metavar="DIR",
        help="only what is newer than that export, by the offsets at which it ended",
    )


def run(call: Call) -> Result:
    from odradek.spark_jobs.scan.options import options_of
    from odradek.spark_jobs.transfer import manifest as manifests
    from odradek.spark_jobs.transfer.export_files import manifest_of
    from odradek.spark_jobs.transfer.export_plan import COLUMNS, plan_export
    from odradek.spark_jobs.transfer.places import Place, absolute

    target = absolute(call.args.into)
    older = _older(call)
    given = {**call.options, **_starting(call, older)}
    options = options_of({**given, "columns": ",".join(COLUMNS)})
    planned = plan_export(options)
    if not planned.ranges:
        raise JobFailed("none of these partitions is there")
    _tell_plan(call, planned, older)
    place = Place(target)
    try:
        manifests.begin(place, overwrite=call.args.overwrite)
        written = _written(call, planned, options, target)
        manifest = manifest_of(planned, written, given, created_ms=int(time.time() * 1000))
        manifests.finish(place, manifest)
    except OSError as failure:
        raise JobFailed(f"{target}: {failure}") from failure
    call.progress(f"{manifest.records} records in {len(manifest.files)} files: {target}")
    return Result(_tables(manifest), exit_status=DAMAGED if manifest.damages else 0)


def _older(call: Call) -> Manifest | None:
    from odradek.spark_jobs.transfer import manifest as manifests
    from odradek.spark_jobs.transfer.places import absolute

    if call.args.since_export is None:
        return None
    if set(call.options) & {"startingOffsets", "startingTimestamp"}:
        raise JobFailed("--since-export says where to start: give no other start")
    return manifests.read(absolute(call.args.since_export))


def _starting(call: Call, older: Manifest | None) -> dict[str, str]:
    from odradek.spark_jobs.transfer.export_plan import offsets_after

    return {} if older is None else {"startingOffsets": offsets_after(older)}


def _tell_plan(call: Call, planned: ExportPlan, older: Manifest | None) -> None:
    from odradek.spark_jobs.transfer.export_plan import check_continues

    if older is not None:
        for line in check_continues(planned, older):
            call.progress(line)
    size_bytes = sum(piece.size_bytes for piece in planned.pieces)
    count = len(planned.ranges)
    call.progress(f"{size_bytes} bytes of {count} partitions, in {len(planned.pieces)} pieces")


def _written(call: Call, planned: ExportPlan, options: Options, target: str) -> list[WrittenPiece]:
    if not planned.pieces:
        return []

    def write(piece: Any) -> WrittenPiece:
        """In a worker."""
        with needing_wheels():
            from odradek.spark_jobs.transfer.export_files import write_piece

            return write_piece(piece, options, target)

    tasks = call.session.sparkContext.parallelize(planned.pieces, len(planned.pieces))
    pieces: list[WrittenPiece] = tasks.map(write).collect()
    return pieces


def _tables(manifest: Manifest) -> list[Table]:
    import pyarrow as pa

    columns = ("topic", "partition", "startOffset", "endOffset", "records", "files", "sizeBytes")
    types = (pa.string(), pa.int32(), *[pa.int64()] * 5)
    rows = []
    for each in manifest.partitions:
        key = (each.topic, each.partition)
        own = [file for file in manifest.files if (file.topic, file.partition) == key]
        size_bytes = sum(file.size_bytes for file in own)
        cells = (*key, each.start_offset, each.end_offset, each.records, len(own), size_bytes)
        rows.append(dict(zip(columns, cells, strict=True)))
    schema = pa.schema(list(zip(columns, types, strict=True)))
    tables = [Table("partitions", "Exported partitions", pa.Table.from_pylist(rows, schema))]
    if manifest.damages:
        lines = pa.table({"damage": pa.array(manifest.damages, pa.string())})
        title = "What could not be read, and is not in the export"
        tables.append(Table("damage", title, lines, of_damage=True))
    return tables


JOB = Job("export", __doc__ or "", add_arguments, run, tells_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
