"""Plan an export: the offset range of each partition, in tasks.

The end of each partition is determined once.  A broker may keep writing meanwhile, and the next
export can begin where this one ends.

Owner: the driver; the plan is immutable and can be pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.spark_jobs.scan.catalog import find_partition_logs, list_log_dir
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.lookup import find_log_end_offset
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.plan import (
    OffsetRange,
    Split,
    needs_transaction_state,
    plan_damage_beyond_lso,
    plan_splits,
    resolve_offset_range,
    retry_on_missing_file,
)
from odradek.spark_jobs.scan.transactions import PartitionTransactions, load_transactions
from odradek.spark_jobs.transfer.manifest import Manifest

#: All fields of a record; the topic is in the name of the directory.
EXPORT_COLUMNS = (
    "key",
    "value",
    "headers",
    "timestamp",
    "timestampType",
    "partition",
    "offset",
    "producerId",
    "producerEpoch",
    "sequence",
    "isTransactional",
    "leaderEpoch",
    "codec",
)


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Consecutive splits of one partition."""

    splits: tuple[Split, ...]

    @property
    def size_bytes(self) -> int:
        return sum(split.size_bytes for split in self.splits)


@dataclass(frozen=True, slots=True)
class ExportPlan:
    ranges: Mapping[tuple[str, int], OffsetRange]  # a range that ends before its start is empty
    partition_counts: Mapping[str, int]
    tasks: tuple[ExportTask, ...]


def plan_export(options: ScanOptions) -> ExportPlan:
    return retry_on_missing_file(lambda: _plan_once(options))


def _plan_once(options: ScanOptions) -> ExportPlan:
    ranges: dict[tuple[str, int], OffsetRange] = {}
    tasks: list[ExportTask] = []
    for log in find_partition_logs(options):
        transactions = (
            load_transactions(log) if needs_transaction_state(options) else PartitionTransactions()
        )
        end = find_log_end_offset(log) if log.high_watermark is None else log.high_watermark
        latest = transactions.last_stable_offset(end)
        offset_range = ranges[log.topic, log.partition] = resolve_offset_range(log, options, latest)
        if offset_range.start < offset_range.end:
            tasks += _group_splits(
                plan_splits(log, offset_range, transactions, options), options.max_split_bytes
            )
        tasks += [
            ExportTask((split,))
            for split in plan_damage_beyond_lso(log, offset_range, transactions)
        ]
    return ExportPlan(ranges, _partition_counts(options, ranges), tuple(tasks))


def _group_splits(splits: Iterable[Split], bytes_max: int) -> list[ExportTask]:
    """Group splits into tasks; small segments share one."""
    tasks: list[ExportTask] = []
    for split in splits:
        if tasks and tasks[-1].size_bytes + split.size_bytes <= bytes_max:
            tasks[-1] = ExportTask((*tasks[-1].splits, split))
        else:
            tasks.append(ExportTask((split,)))
    return tasks


def _partition_counts(
    options: ScanOptions, partitions: Iterable[tuple[str, int]]
) -> dict[str, int]:
    """Count partitions by the log directories, including those that are not selected."""
    counts = {topic: 0 for topic, _ in partitions}
    for path in options.paths:
        for topic, partition in list_log_dir(path).partitions:
            if topic in counts:
                counts[topic] = max(counts[topic], partition + 1)
    return counts


def starting_offsets_after(previous: Manifest) -> str:
    """Return the option ``startingOffsets`` of an export that continues ``previous``."""
    offsets: dict[str, dict[str, int]] = {}
    for exported in previous.partitions:
        offsets.setdefault(exported.topic, {})[str(exported.partition)] = exported.end_offset
    return json.dumps(offsets)


def check_continuity(plan: ExportPlan, previous: Manifest) -> list[str]:
    """Return one line for each gap: offsets after the previous export that were deleted since.

    Raises ScanFailed if a log ends before the previous export does: the topic was created again.
    """
    lines = []
    for exported in previous.partitions:
        offset_range = plan.ranges.get((exported.topic, exported.partition))
        if offset_range is None:
            continue
        name = f"{exported.topic}-{exported.partition}"
        if offset_range.end < exported.end_offset:
            raise ScanFailed(
                f"{name} ends before offset {exported.end_offset}, where the previous export ended"
            )
        if offset_range.start > exported.end_offset:
            lines.append(
                f"{name}: offsets {exported.end_offset} to {offset_range.start - 1} "
                "have been deleted"
            )
    return lines
