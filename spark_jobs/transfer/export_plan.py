"""What is to be exported: of each partition a range of offsets, in pieces.

How far a partition can be read is settled once, so that a broker may go on writing meanwhile, and
so that the next export can begin where this one has ended.

Owner: the driver; what it makes is immutable and can be pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.spark_jobs.scan.catalog import directories_at, partition_logs
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.lookup import log_end_offset
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.plan import (
    OffsetRange,
    Split,
    damage_behind,
    follows_transactions,
    splits_between,
    undisturbed,
    wanted_range,
)
from odradek.spark_jobs.scan.transactions import Transactions, transactions
from odradek.spark_jobs.transfer.manifest import Manifest

#: All fields of a record; the topic is in the name of the directory.
COLUMNS = (
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
class Piece:
    """Splits of one partition that follow one another."""

    splits: tuple[Split, ...]

    @property
    def size_bytes(self) -> int:
        return sum(split.size_bytes for split in self.splits)


@dataclass(frozen=True, slots=True)
class ExportPlan:
    ranges: Mapping[tuple[str, int], OffsetRange]  # one may end before it starts: it has nothing
    partition_counts: Mapping[str, int]
    pieces: tuple[Piece, ...]


def plan_export(options: Options) -> ExportPlan:
    return undisturbed(lambda: _planned(options))


def _planned(options: Options) -> ExportPlan:
    ranges: dict[tuple[str, int], OffsetRange] = {}
    pieces: list[Piece] = []
    for log in partition_logs(options):
        known = transactions(log) if follows_transactions(options) else Transactions()
        end = log_end_offset(log) if log.high_watermark is None else log.high_watermark
        latest = known.last_stable_offset(end)
        wanted = ranges[log.topic, log.partition] = wanted_range(log, options, latest)
        if wanted.start < wanted.end:
            pieces += _pieces(splits_between(log, wanted, known, options), options.max_split_bytes)
        pieces += [Piece((split,)) for split in damage_behind(log, wanted, known)]
    return ExportPlan(ranges, _partition_counts(options, ranges), tuple(pieces))


def _pieces(splits: Iterable[Split], bytes_max: int) -> list[Piece]:
    """Small segments share one."""
    pieces: list[Piece] = []
    for split in splits:
        if pieces and pieces[-1].size_bytes + split.size_bytes <= bytes_max:
            pieces[-1] = Piece((*pieces[-1].splits, split))
        else:
            pieces.append(Piece((split,)))
    return pieces


def _partition_counts(options: Options, wanted: Iterable[tuple[str, int]]) -> dict[str, int]:
    """As the directories have them, also if some of a topic's partitions are not wanted."""
    counts = {topic: 0 for topic, _ in wanted}
    for path in options.paths:
        for topic, partition in directories_at(path).partitions:
            if topic in counts:
                counts[topic] = max(counts[topic], partition + 1)
    return counts


def offsets_after(older: Manifest) -> str:
    """The option ``startingOffsets`` of an export that begins where another has ended."""
    offsets: dict[str, dict[str, int]] = {}
    for each in older.partitions:
        offsets.setdefault(each.topic, {})[str(each.partition)] = each.end_offset
    return json.dumps(offsets)


def check_continues(plan: ExportPlan, older: Manifest) -> list[str]:
    """What the older export has not, and no later one can have: lines for a person.

    ScanFailed if a log ends before the older export does: it is not the same topic any more.
    """
    lines = []
    for each in older.partitions:
        found = plan.ranges.get((each.topic, each.partition))
        if found is None:
            continue
        name = f"{each.topic}-{each.partition}"
        if found.end < each.end_offset:
            raise ScanFailed(f"{name} ends before {each.end_offset}, where the older export ended")
        if found.start > each.end_offset:
            lines.append(
                f"{name}: offsets {each.end_offset} to {found.start - 1} have been deleted"
            )
    return lines
