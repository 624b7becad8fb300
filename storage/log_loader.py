"""Opening a partition's directory: finish what a crash interrupted, recover, put the log together.

    prepare   temporary files go, an interrupted compaction is finished or undone, a segment that
              reaches too far for its indexes is split
    recover   after an unclean stop: every segment from the recovery point on is read again and cut
              at the first bad batch, and what follows it is dropped; costs in proportion to what
              was not synced.  Leaves a directory that opens like a clean one, so that it can run
              in another process
    open_log  indexes that cannot be believed are made anew; the ends of the log, its epochs and its
              producers are found

What cannot be trusted is made anew from the batches and reported: indexes by their shape here and
by the batches they lead to later, epochs and snapshots by their checkpoints' own checks.  A corrupt
batch before the recovery point is left as it is: whoever reads it will notice.  Only where the
batches of the active segment break off before its end is it recovered all the same, since nobody
could tell which offset comes next.

Owner: whoever opens the log; the event loop from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import NO_PARTITION_LEADER_EPOCH
from odradek.protocol.types import TopicPartition
from odradek.storage import files, leader_epochs
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.deletion import remove, set_aside_from_the_end
from odradek.storage.index_soundness import has_sound_indexes
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log import Log, LogParts, shape_of
from odradek.storage.log_segment import LogSegment
from odradek.storage.log_truncation import rebuild_producers
from odradek.storage.paths import OFFSET_MAX, SEGMENT_CONTENTS, Content, FileName, Stage, file_named
from odradek.storage.producers.state import ProducerSettings, ProducerStates
from odradek.storage.segment_list import SegmentList
from odradek.storage.segment_recovery import (
    SegmentRecovery,
    cut_room_ahead,
    learn_epoch,
    rebuild_transaction_index,
)
from odradek.storage.segment_split import split_far_reaching
from odradek.storage.settings import TopicSettings
from odradek.storage.swap_recovery import finish_interrupted_swap


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a log is and what the checkpoints say of it."""

    directory: Path
    partition: TopicPartition
    settings: TopicSettings
    producer_settings: ProducerSettings
    recovery_point: int = 0
    start_offset: int = 0
    now_ms: int = 0


@dataclass(slots=True)
class Findings:
    """What was wrong with a directory, in words, and what had to be cut off."""

    notes: list[str] = field(default_factory=list)
    removed_bytes: int = 0
    recovered_segments: int = 0

    def note(self, what: object) -> None:
        """Once, even if it is met again: what damages one thing is read for another."""
        if str(what) not in self.notes:
            self.notes.append(str(what))

    def add(self, others: Findings) -> None:
        self.notes += others.notes
        self.removed_bytes += others.removed_bytes
        self.recovered_segments += others.recovered_segments


Progress = Callable[[int, int], None]


def recover(place: LogPlace, *, progress: Progress = lambda done, total: None) -> Findings:
    """Make the directory one that was closed cleanly; ``progress`` is told segments done, all."""
    findings = Findings()
    segments = _load_segments(place, prepare(place.directory, findings))
    unsynced = segments.from_offset(place.recovery_point)
    synced = list(segments)[: len(segments) - len(unsynced)]
    epochs = _load_epochs(place.directory, synced, findings)
    epochs.truncate_from_start(place.start_offset)
    producers = ProducerStates(place.partition, place.directory, place.producer_settings)
    if unsynced:
        base_offset = unsynced[0].base_offset
        for damage in rebuild_producers(producers, segments, end=base_offset, now_ms=place.now_ms):
            findings.note(damage)
    for done, segment in enumerate(unsynced):
        progress(done, len(unsynced))
        if done:
            _go_on_to(segment, producers, place.settings, findings)
        recovery = SegmentRecovery(segment, producers, epochs)
        recovery.run()
        findings.recovered_segments += 1
        later = unsynced[done + 1 :]
        _compare(recovery, later)
        if recovery.damage is not None:
            _cut_off(recovery, later, producers, findings)
            break
        recovery.cut()
    if unsynced and producers.end_offset <= place.recovery_point:
        # If it is rolled as it is, nobody will sync or recover it any more.
        recovery.segment.flush()
        files.sync_directory(place.directory)
    producers.take_snapshot()
    epochs.truncate_from_end(producers.end_offset)
    epochs.flush()
    for segment in segments:
        segment.abandon()
    return findings


def _check_end(active: LogSegment, end_at_least: int) -> None:
    end_offset = active.next_offset()
    if end_offset < end_at_least:
        # Offsets that readers have seen would be given again.
        raise CorruptMessage(f"{active}: ends before the recovery point {end_at_least}")
    if active.size_bytes and end_offset <= active.base_offset:
        raise CorruptMessage(f"{active}: ends at {end_offset}, before it begins")


def _go_on_to(
    segment: LogSegment, producers: ProducerStates, settings: TopicSettings, findings: Findings
) -> None:
    """What precedes the segment has been recovered."""
    end_offset = producers.end_offset
    if end_offset < segment.base_offset and not settings.is_compacted:
        # A power cut may take the end of a file that was not synced, and leave the next file.
        findings.note(
            f"{segment}: the offsets from {end_offset} on, before it, are missing, unless they "
            "were compacted away before the topic's policy changed"
        )
    # As a roll does: when the segments before it are deleted, their producers stay known.  Synced,
    # as the log that is opened next does not know which snapshots are new.
    producers.advance(segment.base_offset)
    producers.take_snapshot()


def _compare(recovery: SegmentRecovery, later: list[LogSegment]) -> None:
    """Offsets are outside the checksum: none may have two values."""
    if later and recovery.damage is None and recovery.next_offset > later[0].base_offset:
        recovery.damage = CorruptMessage(f"reaches beyond the beginning of {later[0]}")


def _cut_off(
    recovery: SegmentRecovery,
    later: list[LogSegment],
    producers: ProducerStates,
    findings: Findings,
) -> None:
    """A segment has a bad batch: from there on everything goes."""
    # Those that follow go first: no crash must leave a gap before them.
    set_aside_from_the_end(later, producers.snapshots)
    removed = recovery.cut()
    findings.removed_bytes += removed + sum(segment.size_bytes for segment in later)
    findings.note(
        f"{recovery.segment}: {removed} bytes and {len(later)} later segments are cut off: "
        f"{recovery.damage}"
    )


def open_log(place: LogPlace, findings: Findings, *, was_closed: bool = False) -> Log:
    """The log of a directory that was closed cleanly, or recovered, or is empty or new.

    One that ``was_closed`` ends at its recovery point or beyond.
    """
    try:
        return _opened(place, findings, end_at_least=place.recovery_point if was_closed else 0)
    except CorruptMessage as damage:
        findings.note(f"{damage}, in the active segment, which is recovered")
    findings.add(recover(replace(place, recovery_point=OFFSET_MAX)))
    return _opened(place, findings)


def _opened(place: LogPlace, findings: Findings, *, end_at_least: int = 0) -> Log:
    """CorruptMessage if the end of the log cannot be found."""
    names = prepare(place.directory, findings)
    segments = _load_segments(place, names)
    snapshots = [each.offset for each in names if each.content is Content.PRODUCER_SNAPSHOT]
    _mend_indexes(place, segments, snapshots, findings)
    epochs = _load_epochs(place.directory, segments, findings)
    producers = ProducerStates(
        place.partition, place.directory, place.producer_settings, snapshots=snapshots
    )
    if len(segments):
        _check_end(segments.active, end_at_least)
    start_offset, end_offset = _find_ends(place, segments, epochs, findings)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    producers.snapshots.remove_strays([*(segment.base_offset for segment in segments), end_offset])
    for damage in rebuild_producers(producers, segments, end=end_offset, now_ms=place.now_ms):
        findings.note(damage)
    # Maps and descriptors are for logs that are used.
    for segment in segments:
        segment.abandon()
    parts = LogParts(
        segments=segments,
        producers=producers,
        epochs=epochs,
        start_offset=start_offset,
        end_offset=end_offset,
        recovery_point=min(place.recovery_point, end_offset),
    )
    return Log(place.directory, place.partition, place.settings, parts)


def prepare(directory: Path, findings: Findings) -> list[FileName]:
    """Leave only files that are in use, of which the log's own are returned."""
    names = _names_in(directory)
    for name, parsed in names.items():
        is_removed = parsed is not None and parsed.stage is Stage.DELETED
        if is_removed or name.endswith(files.TEMPORARY):
            files.remove(directory / name)
    if any(
        name is not None and name.stage in (Stage.CLEANED, Stage.SWAP) for name in names.values()
    ):
        finish_interrupted_swap(directory)
        names = _names_in(directory)
    in_use = _in_use(names)
    split = split_far_reaching(directory, _base_offsets(in_use))
    for path in split:
        findings.note(f"{path} reaches too far for its indexes, and is split (KAFKA-6264)")
    return _in_use(_names_in(directory)) if split else in_use


def _names_in(directory: Path) -> dict[str, FileName | None]:
    return {name: file_named(name) for name in files.system.listdir(directory)}


def _in_use(names: dict[str, FileName | None]) -> list[FileName]:
    return [name for name in names.values() if name is not None and name.stage is Stage.IN_USE]


def _base_offsets(in_use: list[FileName]) -> set[int]:
    return {name.offset for name in in_use if name.content is Content.BATCHES}


def _load_segments(place: LogPlace, in_use: list[FileName]) -> SegmentList:
    base_offsets = _base_offsets(in_use)
    for name in in_use:
        if name.content in SEGMENT_CONTENTS and name.offset not in base_offsets:
            files.remove(place.directory / str(name))
    shape = shape_of(place.settings)
    segments = SegmentList(LogSegment(place.directory, base, shape) for base in base_offsets)
    for segment in segments:
        if segment is not segments.active:
            cut_room_ahead(segment)
    return segments


def _load_epochs(
    directory: Path, segments: Iterable[LogSegment], findings: Findings
) -> LeaderEpochs:
    path = directory / leader_epochs.FILE_NAME
    try:
        if path.exists() or not _have_epochs(segments):
            return LeaderEpochs.load(directory)
        findings.note(f"{path} is missing, and made anew")
    except (CheckpointDamaged, CorruptMessage) as damage:
        findings.note(damage)
    epochs = LeaderEpochs(directory)
    for segment in segments:
        try:
            for _, batch in segment.batches():
                learn_epoch(batch, epochs)
        except CorruptMessage as damage:
            findings.note(f"{segment}: {damage}")
    return epochs


def _have_epochs(segments: Iterable[LogSegment]) -> bool:
    """By the last batch: one of an old format clears all epochs when it is appended."""
    last = max(
        (segment for segment in segments if segment.size_bytes),
        key=lambda segment: segment.base_offset,
        default=None,
    )
    place = None if last is None else last.last_place()
    if last is None or place is None:
        return False
    return last.batch_at(place).partition_leader_epoch != NO_PARTITION_LEADER_EPOCH


def _mend_indexes(
    place: LogPlace, segments: SegmentList, snapshots: list[int], findings: Findings
) -> None:
    """All three of a segment: that a transaction index is missing cannot be told by itself."""
    damaged = [segment for segment in segments if not has_sound_indexes(segment, segments)]
    known: ProducerStates | None = None
    previous: LogSegment | None = None
    for segment in damaged:
        findings.note(f"{segment}: an index is missing, damaged or incomplete, and made anew")
        if known is None or previous is None or segments.after(previous) is not segment:
            known = _producers_before(segment, place, segments, snapshots, findings)
        damage = rebuild_transaction_index(segment, known)
        # Last, as only their state tells that all three are damaged.
        segment.rebuild_indexes()
        if damage is not None:
            findings.note(f"{segment}: {damage}")
        previous = segment


def _producers_before(
    segment: LogSegment,
    place: LogPlace,
    segments: SegmentList,
    snapshots: list[int],
    findings: Findings,
) -> ProducerStates:
    """Without a look at later snapshots, which will be needed."""
    end = segment.base_offset
    known = ProducerStates(
        place.partition,
        place.directory,
        place.producer_settings,
        snapshots=[offset for offset in snapshots if offset <= end],
    )
    # The log itself may be loaded from a later snapshot, and never meet what is damaged here.
    for damage in rebuild_producers(known, segments, end=end, now_ms=place.now_ms):
        findings.note(damage)
    return known


def _find_ends(
    place: LogPlace, segments: SegmentList, epochs: LeaderEpochs, findings: Findings
) -> tuple[int, int]:
    """The start and the end of the log; makes its first segment if there is none."""
    if len(segments):
        end_offset = segments.active.next_offset()
        if end_offset >= place.start_offset:
            return max(place.start_offset, segments.first.base_offset), end_offset
        findings.note(
            f"{place.directory}: ends at {end_offset}, before its start {place.start_offset}; "
            "all segments are dropped"
        )
        dropped = list(segments)
        segments.remove(dropped)
        for segment in dropped:
            segment.move(Stage.DELETED)
        remove(dropped)
        epochs.clear()
    first = LogSegment(place.directory, place.start_offset, shape_of(place.settings))
    first.create()
    if place.start_offset > 0:
        # The checkpoint will no longer tell where the log starts if a segment does.
        files.sync_directory(place.directory)
    segments.add(first)
    return place.start_offset, place.start_offset
