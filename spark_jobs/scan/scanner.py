"""Segment files as Arrow record batches: the whole of a scan, or one split of it.

    for rows in scan(path="/var/lib/kafka", topics="orders", columns="key,offset"):
        ...  # a pyarrow.RecordBatch

    scan_schema(options)        the schema that all of them have
    plan(options)               the splits, for whoever shares them out: plan.py
    read_split(split, options)  the rows of one of them, in any process that can open the file

A split whose file compaction has replaced since it was planned is found again by its offsets.

Owner: whoever iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from odradek.protocol.records.crc32c import crc32c
from odradek.spark_jobs.contents.meaning import columns_to_read, understood
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.batches_view import batch_rows, old_message_rows
from odradek.spark_jobs.scan.columns import schema_of
from odradek.spark_jobs.scan.damage import Damage, Mode, ScanFailed
from odradek.spark_jobs.scan.decode import Decoded, decode
from odradek.spark_jobs.scan.file_access import File, FileSystem, file_system_of
from odradek.spark_jobs.scan.old_formats import decode_old
from odradek.spark_jobs.scan.options import Options, View, column_types, options_of
from odradek.spark_jobs.scan.plan import Split, plan
from odradek.spark_jobs.scan.visibility import Visibility
from odradek.spark_jobs.scan.walk import Flaw, Found, Walk
from odradek.spark_jobs.scan.wishes import Aborted, Wishes
from odradek.storage.paths import Stage

Report = Callable[[Damage], None]


def scan(report: Report | None = None, **options: str) -> Iterator[pa.RecordBatch]:
    """The rows that the options ask for (options.py); ``report`` is told of damage."""
    return scan_all(options_of(options), report)


def scan_all(options: Options, report: Report | None = None) -> Iterator[pa.RecordBatch]:
    for split in plan(options):
        yield from read_split(split, options, report)


def scan_schema(options: Options) -> pa.Schema:
    return schema_of(options.columns, column_types(options.view, options.content))


def read_split(
    split: Split, options: Options, report: Report | None = None
) -> Iterator[pa.RecordBatch]:
    """Its rows, in the order of offsets; none of the batches is empty."""
    check_can_check()
    system = file_system_of(split.path)
    path = _present_path(system, split.path)
    if path is None:
        if options.fail_on_data_loss:
            raise ScanFailed(f"{split.path} is gone; failOnDataLoss=false goes on without it")
        return
    with system.open(path) as file:
        for rows in _rows(file, split, options):
            if not isinstance(rows, Flaw):
                if rows.num_rows:
                    yield rows
            elif options.mode is Mode.FAILFAST:
                raise ScanFailed(str(_damage(split, rows)))
            elif options.mode is Mode.PERMISSIVE and report is not None:
                report(_damage(split, rows))


def check_can_check() -> None:
    """ScanFailed where nothing computes the checksums: no record is read unchecked."""
    try:
        crc32c(b"")
    except ImportError as missing:
        raise ScanFailed("checksums need the package crc32c or crcmod: install one") from missing


def _present_path(system: FileSystem, path: str) -> str | None:
    """A segment that retention has removed keeps its bytes for a minute, under another name."""
    for present in (path, path + Stage.DELETED.value):
        try:
            system.size_of(present)
        except FileNotFoundError:
            continue
        return present
    return None


def _rows(file: File, split: Split, options: Options) -> Decoded:
    start_offset, end_offset = split.start_offset, split.end_offset
    if not split.is_of(file.size_bytes):
        start_offset = max(start_offset, split.stretch.first_offset)
        end_offset = min(end_offset, split.stretch.stop_offset)
    wishes = Wishes(
        topic=split.topic,
        partition=split.partition,
        segment=split.path,
        columns=columns_to_read(options),
        start_offset=start_offset,
        end_offset=end_offset,
        include_control=options.include_control or options.view is View.BATCHES,
        aborted=Aborted(split.aborted) if options.is_committed else None,
    )
    is_batches = options.view is View.BATCHES
    visibility = Visibility(replace(wishes, aborted=None) if is_batches else wishes)
    for found in _found(file, split):
        if isinstance(found, Flaw):
            yield found
        elif isinstance(found, BatchGroup):
            is_visible, contradictions = visibility.visible(found)
            yield from contradictions
            group = found if is_visible.all() else found.kept(is_visible)
            if len(group):
                rows = batch_rows(group, wishes) if is_batches else decode(group, wishes)
                yield from understood(rows, group, options)
        else:
            rows = old_message_rows(found, wishes) if is_batches else decode_old(found, wishes)
            yield from understood(rows, found, options)


def _found(file: File, split: Split) -> Iterator[Found]:
    stretch = split.stretch
    if split.is_of(file.size_bytes):
        return iter(Walk(file, stretch))
    return iter(Walk(file, replace(stretch, start=0, end=file.size_bytes, first_offset=0)))


def _damage(split: Split, flaw: Flaw) -> Damage:
    return Damage(
        topic=split.topic,
        partition=split.partition,
        segment=split.path,
        position=flaw.position,
        end_position=flaw.end_position,
        first_offset=flaw.first_offset,
        reason=flaw.reason,
    )
