"""Splits: pieces of segments that can be read by themselves, by whoever has the files.

What is not wanted is left out before anything is read: topics by name, segments and their parts by
offset (offset index) and by time (time index).  A large segment is cut at batches, by the offset
index; each cut is compared with the batch there, and where the index is of no use, the lengths of
the batches lead from one to the next.

Owner: whoever plans; splits are immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from odradek.spark_jobs.scan.catalog import PartitionLog, Segment, partition_logs
from odradek.spark_jobs.scan.file_access import File
from odradek.spark_jobs.scan.lookup import Place, SegmentLookup, first_as_young
from odradek.spark_jobs.scan.options import EARLIEST, LATEST, Offsets, Options, View
from odradek.spark_jobs.scan.resync import Search, batch_chain, sound_batch_at
from odradek.spark_jobs.scan.transactions import Transactions, transactions
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Stretch, check_can_check
from odradek.storage.transaction_index import AbortedTransaction

#: Retention and compaction change one file after the other, but not for ever.
LOOKS = 5

Looked = TypeVar("Looked")


@dataclass(frozen=True, slots=True)
class Split:
    """Read what lies in this stretch of a segment, from one offset to before the other."""

    topic: str
    partition: int
    path: str
    segment_bytes: int  # when it was planned
    stretch: Stretch
    start_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]

    @property
    def size_bytes(self) -> int:
        return self.stretch.end - self.stretch.start

    def is_of(self, file: File) -> bool:
        """Whether the file is the one planned on; compaction may have replaced it.

        That takes bytes away, so that the size tells.  But what was the last segment may have
        grown before, and still be larger: as long as a split begins with the batch that was there,
        nothing is gone in front of it, and what is left of it has not moved backwards.
        """
        is_last = self.stretch.offset_max == OFFSET_MAX
        is_grown = is_last and file.size_bytes > self.segment_bytes
        if file.size_bytes != self.segment_bytes and not is_grown:
            return False
        start, first_offset = self.stretch.start, self.stretch.first_offset
        # One that tells of damage and has no rows begins with no sound batch.
        if start == 0 or self.start_offset >= self.end_offset:
            return True
        search = Search(start, file.size_bytes, first_offset, first_offset)
        return sound_batch_at(file, search) is not None


def plan(options: Options) -> list[Split]:
    """All splits, in the order of topic, partition and offset."""
    check_can_check()
    return undisturbed(lambda: _planned(options))


def undisturbed(look: Callable[[], Looked]) -> Looked:
    """What is found, unless files go while they are looked at: then it is looked at again."""
    for _ in range(LOOKS - 1):
        try:
            return look()
        except FileNotFoundError:
            continue
    return look()


def _planned(options: Options) -> list[Split]:
    splits: list[Split] = []
    for log in partition_logs(options):
        known = transactions(log) if follows_transactions(options) else Transactions()
        bound = OFFSET_MAX if log.high_watermark is None else log.high_watermark
        latest = known.last_stable_offset(bound)
        wanted = wanted_range(log, options, latest)
        splits += splits_between(log, wanted, known, options)
        splits += damage_behind(log, wanted, known)
    return splits


def follows_transactions(options: Options) -> bool:
    # A row for each batch says what is there, whoever may see it.
    return options.is_committed and options.view is View.RECORDS


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from the one to before the other."""

    start: int
    end: int


def splits_between(
    log: PartitionLog, wanted: OffsetRange, known: Transactions, options: Options
) -> Iterator[Split]:
    """Of one partition; ``known`` is of what was aborted in there."""
    for segment in log.segments:
        if segment.base_offset >= wanted.end or segment.offset_max < wanted.start:
            continue
        with log.system.open(segment.path) as file:
            lookup = SegmentLookup(log.system, segment, file)
            places = _places(lookup, file, wanted, options)
            size_bytes = file.size_bytes
        for place, following in pairwise(places):
            stretch = Stretch(
                place.position,
                following.position,
                place.offset,
                stop_offset=min(wanted.end, following.offset),
                offset_max=segment.offset_max,
                is_last=segment.next_base_offset is None and following == lookup.end,
                high_watermark=log.high_watermark,
            )
            yield Split(
                topic=log.topic,
                partition=log.partition,
                path=segment.path,
                segment_bytes=size_bytes,
                stretch=stretch,
                start_offset=wanted.start,
                end_offset=wanted.end,
                aborted=_reaching(known, segment, place.offset),
            )


def damage_behind(log: PartitionLog, wanted: OffsetRange, known: Transactions) -> Iterator[Split]:
    """Nothing is read from an open transaction on.  But damage there may hide that it has ended,
    and be why nothing is read: these splits have no rows, and tell of it."""
    if wanted.end not in known.open.values():
        return
    for segment, flaw in known.unread:
        if flaw.first_offset >= wanted.end:
            stretch = Stretch(
                flaw.position,
                flaw.end_position,
                flaw.first_offset,
                offset_max=segment.offset_max,
                is_last=False,
            )
            yield Split(
                topic=log.topic,
                partition=log.partition,
                path=segment.path,
                segment_bytes=segment.size_bytes,
                stretch=stretch,
                start_offset=wanted.end,
                end_offset=wanted.end,
                aborted=(),
            )


def wanted_range(log: PartitionLog, options: Options, latest: int) -> OffsetRange:
    """What the options say of a partition that can be read up to ``latest``."""
    start = _chosen(log, options.starting_offsets, default=EARLIEST, latest=latest)
    end = _chosen(log, options.ending_offsets, default=LATEST, latest=latest)
    if options.starting_timestamp is not None:
        first = first_as_young(log, options.starting_timestamp)
        start = latest if first is None else first
    if options.ending_timestamp is not None:
        first = first_as_young(log, options.ending_timestamp)
        end = latest if first is None else first
    return OffsetRange(max(start, log.log_start_offset), min(end, latest))


def _chosen(log: PartitionLog, offsets: Offsets, *, default: int, latest: int) -> int:
    offset = offsets.get((log.topic, log.partition), default)
    if offset == EARLIEST:
        return log.log_start_offset
    return latest if offset == LATEST else offset


def _places(
    lookup: SegmentLookup, file: File, wanted: OffsetRange, options: Options
) -> list[Place]:
    """Where splits begin, and where the last one ends."""
    first = lookup.at_or_before(wanted.start)
    last = lookup.after(wanted.end) or lookup.end
    places = [first]
    while (target := places[-1].position + options.max_split_bytes) < last.position:
        cut = _cut(lookup, file, places[-1], target)
        if cut is None or cut.position >= last.position:
            break
        places.append(cut)
    return [*places, last]


def _cut(lookup: SegmentLookup, file: File, previous: Place, target: int) -> Place | None:
    """The first batch at or behind the position ``target``; None if it cannot be found."""
    offsets, positions = lookup.entries
    slot = int(np.searchsorted(positions, target))
    if slot < len(positions):
        place = lookup.verified(int(positions[slot]), int(offsets[slot]))
        if place is not None and place.offset > previous.offset:
            return place
    for position in batch_chain(file, previous.position):
        if position >= target:
            return lookup.verified(position, OFFSET_MAX)
    return None


def _reaching(
    known: Transactions, segment: Segment, first_offset: int
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that reach into what lies from an offset to the segment's end."""
    return tuple(
        sorted(
            each
            for each in known.aborted
            if each.last_offset >= first_offset and each.first_offset <= segment.offset_max
        )
    )
