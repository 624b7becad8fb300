"""Segment files as Arrow record batches: the whole of a scan, or one split of it.

    for rows in scan(path="/var/lib/kafka", topics="orders", columns="key,offset"):
        ...  # a pyarrow.RecordBatch

    scan_schema(options)        the schema that all of them have
    plan(options)               the splits, for whoever shares them out: plan.py
    read_split(split, options)  the rows of one of them, in any process that can open the file

A split whose file compaction has replaced since it was planned, or has made a part of the one
before it, is found again by its offsets.

Owner: whoever iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from odradek.spark_jobs.contents.meaning import columns_to_read, understood
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.batches_view import batch_rows, old_message_rows
from odradek.spark_jobs.scan.columns import schema_of
from odradek.spark_jobs.scan.damage import Damage, Mode, ScanFailed
from odradek.spark_jobs.scan.decode import Decoded, decode
from odradek.spark_jobs.scan.file_access import (
    File,
    FileSystem,
    file_system_of,
    joined,
    parted,
    renamed,
)
from odradek.spark_jobs.scan.old_formats import decode_old
from odradek.spark_jobs.scan.options import Options, View, column_types, options_of
from odradek.spark_jobs.scan.plan import Split, plan
from odradek.spark_jobs.scan.visibility import Visibility
from odradek.spark_jobs.scan.walk import Flaw, Stretch, Walk, check_can_check
from odradek.spark_jobs.scan.wishes import Aborted, Wishes
from odradek.storage.paths import Content, Stage, file_named

Report = Callable[[Damage], None]


def scan(report: Report | None = None, **options: str) -> Iterator[pa.RecordBatch]:
    """The rows that the options ask for (options.py); ``report`` is told of damage."""
    return scan_all(options_of(options), report)


def scan_all(options: Options, report: Report | None = None) -> Iterator[pa.RecordBatch]:
    """Planned at once, so that what makes no sense is told before there are rows."""
    splits = plan(options)
    return (rows for split in splits for rows in read_split(split, options, report))


def scan_schema(options: Options) -> pa.Schema:
    return schema_of(options.columns, column_types(options.view, options.content))


def read_split(
    split: Split, options: Options, report: Report | None = None
) -> Iterator[pa.RecordBatch]:
    """Its rows, in the order of offsets; none of the batches is empty."""
    check_can_check()
    with ExitStack() as stack:
        file = _opened(stack, split)
        if file is None:
            if options.fail_on_data_loss:
                raise ScanFailed(f"{split.path} is gone; failOnDataLoss=false goes on without it")
            return
        for rows in _rows(file, split, options):
            if not isinstance(rows, Flaw):
                if rows.num_rows:
                    yield rows
            elif options.mode is Mode.FAILFAST:
                raise ScanFailed(str(_damage(split, rows)))
            elif options.mode is Mode.PERMISSIVE and report is not None:
                report(_damage(split, rows))


def _opened(stack: ExitStack, split: Split) -> File | None:
    """The file that has the split's records now; None if they are gone."""
    system = file_system_of(split.path)
    for path in _candidates(system, split.path):
        try:
            file: File = stack.enter_context(system.open(path))
        except FileNotFoundError:
            continue
        return file
    return None


def _candidates(system: FileSystem, path: str) -> Iterator[str]:
    yield path
    # What retention or compaction has removed keeps its bytes for a minute, under another name.
    yield _removed(path)
    # Retention begins with the oldest: if an older one is there, compaction has joined the two.
    directory, own = parted(path)
    try:
        names = [known for name in system.names(directory) if (known := file_named(name))]
    except FileNotFoundError:
        return
    logs = [each for each in names if (each.content, each.stage) == (Content.BATCHES, Stage.IN_USE)]
    older = [str(each) for each in logs if str(each) < own]  # names are of one length
    if older:
        yield joined(directory, max(older))


def _removed(path: str) -> str:
    return renamed(path, parted(path)[1] + Stage.DELETED.value)


def _rows(file: File, split: Split, options: Options) -> Decoded:
    start_offset, stretch = split.start_offset, split.stretch
    # What compaction has left may lie where the next split's records were: those are not read here.
    end_offset = min(split.end_offset, stretch.stop_offset)
    if _is_replaced(file, split):
        start_offset = max(start_offset, stretch.first_offset)
        end_offset = min(end_offset, stretch.offset_max + 1)
        stretch = Stretch(0, file.size_bytes, 0, stop_offset=end_offset, is_last=False)
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
    walk, found = Walk(file, stretch), None
    for found in walk:
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
    if not isinstance(found, Flaw) and walk.lacks_its_end:
        reason = f"the log ends here, but the high watermark is {stretch.high_watermark}"
        yield Flaw(file.size_bytes, file.size_bytes, walk.next_offset, reason)


def _is_replaced(file: File, split: Split) -> bool:
    """Whether compaction has written the file since."""
    return file.path not in (split.path, _removed(split.path)) or not split.is_of(file)


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
