"""The entry points of a scan: read segment files as Arrow record batches, all or one split.

    for rows in scan(path="/var/lib/kafka", topics="orders", columns="key,offset"):
        ...  # a pyarrow.RecordBatch

    scan_schema(options)        the schema of all record batches
    plan(options)               the splits, for callers that distribute them: plan.py
    read_split(split, options)  the rows of one split, in any process that can open the file

If compaction has replaced the file of a split since it was planned, or merged it into the previous
segment, the split's records are found again by their offsets.

Owner: the caller that iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from odradek.spark_jobs.internal_topics.record_parser import columns_to_read, parse_internal_records
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.batches_view import build_batch_rows, build_legacy_batch_rows
from odradek.spark_jobs.scan.columns import build_schema
from odradek.spark_jobs.scan.damage import Damage, ParseMode, ScanFailed
from odradek.spark_jobs.scan.file_access import (
    File,
    FileSystem,
    file_system_for,
    join_path,
    split_path,
    with_file_name,
)
from odradek.spark_jobs.scan.legacy_formats import decode_legacy_batches
from odradek.spark_jobs.scan.options import ScanOptions, View, column_types, parse_options
from odradek.spark_jobs.scan.plan import Split, plan
from odradek.spark_jobs.scan.read_spec import AbortedTransactions, ReadSpec
from odradek.spark_jobs.scan.record_decoder import DecodedRows, decode_batches
from odradek.spark_jobs.scan.segment_reader import (
    DamagedRange,
    SegmentRange,
    SegmentReader,
    check_crc32c_available,
)
from odradek.spark_jobs.scan.visibility import VisibilityFilter
from odradek.storage.paths import FileStage, LogFileType, parse_file_name

DamageReporter = Callable[[Damage], None]


def scan(report: DamageReporter | None = None, **options: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the options select (options.py); ``report`` receives damage."""
    return scan_all(parse_options(options), report)


def scan_all(
    options: ScanOptions, report: DamageReporter | None = None
) -> Iterator[pa.RecordBatch]:
    """Plan at once, so that invalid options raise before the first row."""
    splits = plan(options)
    return (rows for split in splits for rows in read_split(split, options, report))


def scan_schema(options: ScanOptions) -> pa.Schema:
    return build_schema(options.columns, column_types(options.view, options.content))


def read_split(
    split: Split, options: ScanOptions, report: DamageReporter | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, in offset order; no record batch is empty."""
    check_crc32c_available()
    with ExitStack() as stack:
        file = _open_segment_file(stack, split)
        if file is None:
            if options.fail_on_data_loss:
                raise ScanFailed(
                    f"{split.path} no longer exists; set failOnDataLoss=false to skip it"
                )
            return
        for rows in _read_rows(file, split, options):
            if not isinstance(rows, DamagedRange):
                if rows.num_rows:
                    yield rows
            elif options.mode is ParseMode.FAILFAST:
                raise ScanFailed(str(_to_damage(split, rows)))
            elif options.mode is ParseMode.PERMISSIVE and report is not None:
                report(_to_damage(split, rows))


def _open_segment_file(stack: ExitStack, split: Split) -> File | None:
    """Open the file that holds the split's records now; return None if they were deleted."""
    file_system = file_system_for(split.path)
    for path in _candidate_paths(file_system, split.path):
        try:
            file: File = stack.enter_context(file_system.open(path))
        except FileNotFoundError:
            continue
        return file
    return None


def _candidate_paths(file_system: FileSystem, path: str) -> Iterator[str]:
    yield path
    # A segment that retention or compaction removed stays for a minute, under another name.
    yield _deleted_path(path)
    # Retention deletes the oldest first: if an older segment exists, compaction merged the two.
    directory, own_name = split_path(path)
    try:
        names = [
            parsed
            for name in file_system.list_names(directory)
            if (parsed := parse_file_name(name))
        ]
    except FileNotFoundError:
        return
    logs = [
        log_name
        for log_name in names
        if (log_name.file_type, log_name.stage) == (LogFileType.LOG, FileStage.IN_USE)
    ]
    # File names have one length, so they sort by offset.
    older = [str(log_name) for log_name in logs if str(log_name) < own_name]
    if older:
        yield join_path(directory, max(older))


def _deleted_path(path: str) -> str:
    return with_file_name(path, split_path(path)[1] + FileStage.DELETED.value)


def _read_rows(file: File, split: Split, options: ScanOptions) -> DecodedRows:
    start_offset, segment_range = split.start_offset, split.segment_range
    # After compaction, records of the next split may lie in this range: they are not read here.
    end_offset = min(split.end_offset, segment_range.stop_offset)
    if _is_replaced(file, split):
        start_offset = max(start_offset, segment_range.first_offset)
        end_offset = min(end_offset, segment_range.offset_max + 1)
        segment_range = SegmentRange(0, file.size_bytes, 0, stop_offset=end_offset, is_last=False)
    spec = ReadSpec(
        topic=split.topic,
        partition=split.partition,
        segment=split.path,
        columns=columns_to_read(options),
        start_offset=start_offset,
        end_offset=end_offset,
        include_control=options.include_control or options.view is View.BATCHES,
        aborted=AbortedTransactions(split.aborted) if options.is_read_committed else None,
    )
    is_batches = options.view is View.BATCHES
    visibility = VisibilityFilter(replace(spec, aborted=None) if is_batches else spec)
    reader, item = SegmentReader(file, segment_range), None
    for item in reader:
        if isinstance(item, DamagedRange):
            yield item
        elif isinstance(item, BatchGroup):
            is_visible, damaged_ranges = visibility.find_visible(item)
            yield from damaged_ranges
            group = item if is_visible.all() else item.select(is_visible)
            if len(group):
                rows = build_batch_rows(group, spec) if is_batches else decode_batches(group, spec)
                yield from parse_internal_records(rows, group, options)
        else:
            rows = (
                build_legacy_batch_rows(item, spec)
                if is_batches
                else decode_legacy_batches(item, spec)
            )
            yield from parse_internal_records(rows, item, options)
    if not isinstance(item, DamagedRange) and reader.ends_before_high_watermark:
        reason = f"the log ends here, but the high watermark is {segment_range.high_watermark}"
        yield DamagedRange(file.size_bytes, file.size_bytes, reader.next_offset, reason)


def _is_replaced(file: File, split: Split) -> bool:
    """Whether compaction has replaced the file since the split was planned."""
    return file.path not in (split.path, _deleted_path(split.path)) or not split.matches(file)


def _to_damage(split: Split, damaged_range: DamagedRange) -> Damage:
    return Damage(
        topic=split.topic,
        partition=split.partition,
        segment=split.path,
        position=damaged_range.position,
        end_position=damaged_range.end_position,
        first_offset=damaged_range.first_offset,
        reason=damaged_range.reason,
    )
