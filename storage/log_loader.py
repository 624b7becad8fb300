"""Opens the directory of a log: finish interrupted operations, recover, load.  Kafka: LogLoader.

    prepare_directory   removes temporary files, finishes or undoes an interrupted compaction,
                        splits segments whose offsets overflow their indexes
    recover_log         after an unclean shutdown: reads every segment from the recovery point on,
                        truncates at the first corrupt batch and drops the segments after it.  The
                        cost is proportional to the unflushed bytes.  It leaves a directory that
                        opens like a clean one, so it can run in another process
    open_log            rebuilds invalid indexes; finds the log start and end offsets, the leader
                        epochs and the producer state

Invalid data is rebuilt from the batches and reported: indexes by their shape here and by the
batches they point to later, epochs and snapshots by the checks of their files.  A corrupt batch
before the recovery point stays as it is; a reader of the batch gets the error.  There is one
exception: if the batches of the active segment break off before its end, the segment is recovered
in any case, because otherwise the next offset would be unknown.

Owner: the thread that opens the log; the event loop from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import NO_PARTITION_LEADER_EPOCH
from odradek.protocol.types import TopicPartition
from odradek.storage import files, leader_epoch_file_cache
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.index_sanity_check import passes_sanity_check
from odradek.storage.leader_epoch_file_cache import LeaderEpochFileCache
from odradek.storage.log_segment import LogSegment
from odradek.storage.log_segments import LogSegments
from odradek.storage.log_truncation import rebuild_producer_state
from odradek.storage.paths import (
    OFFSET_MAX,
    SEGMENT_FILE_TYPES,
    FileName,
    FileStage,
    LogFileType,
    parse_file_name,
)
from odradek.storage.producer_state.producer_state_manager import (
    ProducerSettings,
    ProducerStateManager,
)
from odradek.storage.segment_deletion import delete_segment_files, mark_segments_deleted_in_reverse
from odradek.storage.segment_recovery import (
    SegmentRecovery,
    rebuild_transaction_index,
    trim_preallocated_space,
    update_leader_epochs,
)
from odradek.storage.segment_split import split_overflowed_segments
from odradek.storage.settings import TopicSettings
from odradek.storage.swap_recovery import complete_swap_operations
from odradek.storage.unified_log import LogComponents, UnifiedLog, segment_config_for


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLogParams:
    """The location of a log and the offsets that the checkpoints have for it."""

    directory: Path
    partition: TopicPartition
    settings: TopicSettings
    producer_settings: ProducerSettings
    recovery_point: int = 0
    log_start_offset: int = 0
    now_ms: int = 0


@dataclass(slots=True)
class LogLoadReport:
    """The problems found in a directory, and how much of the log was removed."""

    problems: list[str] = field(default_factory=list)
    removed_bytes: int = 0
    recovered_segments: int = 0

    def add_problem(self, problem: object) -> None:
        """Add the problem unless it is known: the same damage can be found more than once."""
        if str(problem) not in self.problems:
            self.problems.append(str(problem))

    def merge(self, other: LogLoadReport) -> None:
        self.problems += other.problems
        self.removed_bytes += other.removed_bytes
        self.recovered_segments += other.recovered_segments


SegmentProgress = Callable[[int, int], None]


def recover_log(
    params: LoadLogParams, *, progress: SegmentProgress = lambda done, total: None
) -> LogLoadReport:
    """Recover the directory to the state after a clean shutdown.

    ``progress`` is called with the number of recovered segments and the number to recover.
    """
    report = LogLoadReport()
    segments = _load_segments(params, prepare_directory(params.directory, report))
    unflushed = segments.from_offset(params.recovery_point)
    flushed = list(segments)[: len(segments) - len(unflushed)]
    epochs = _load_leader_epochs(params.directory, flushed, report)
    epochs.truncate_from_start(params.log_start_offset)
    producers = ProducerStateManager(params.partition, params.directory, params.producer_settings)
    if unflushed:
        base_offset = unflushed[0].base_offset
        for problem in rebuild_producer_state(
            producers, segments, end=base_offset, now_ms=params.now_ms
        ):
            report.add_problem(problem)
    for done, segment in enumerate(unflushed):
        progress(done, len(unflushed))
        if done:
            _prepare_next_segment(segment, producers, params.settings, report)
        recovery = SegmentRecovery(segment, producers, epochs)
        recovery.run()
        report.recovered_segments += 1
        later = unflushed[done + 1 :]
        _check_overlap(recovery, later)
        if recovery.error is not None:
            _truncate_at_corruption(recovery, later, producers, report)
            break
        recovery.truncate()
    if unflushed and producers.map_end_offset <= params.recovery_point:
        # If this segment is rolled without an append, no later flush or recovery covers it.
        recovery.segment.flush()
        files.sync_directory(params.directory)
    producers.take_snapshot()
    epochs.truncate_from_end(producers.map_end_offset)
    epochs.flush()
    for segment in segments:
        segment.close_handlers()
    return report


def _check_log_end(active_segment: LogSegment, min_end_offset: int) -> None:
    end_offset = active_segment.read_next_offset()
    if end_offset < min_end_offset:
        # The log would assign offsets again that consumers have already read.
        raise CorruptMessage(f"{active_segment}: ends before the recovery point {min_end_offset}")
    if active_segment.size_bytes and end_offset <= active_segment.base_offset:
        raise CorruptMessage(f"{active_segment}: ends at {end_offset}, before its base offset")


def _prepare_next_segment(
    segment: LogSegment,
    producer_state_manager: ProducerStateManager,
    settings: TopicSettings,
    report: LogLoadReport,
) -> None:
    """Prepare the segment; all segments before it have been recovered."""
    end_offset = producer_state_manager.map_end_offset
    if end_offset < segment.base_offset and not settings.is_compacted:
        # A power cut may lose the end of a file that was not flushed and keep the next file.
        report.add_problem(
            f"{segment}: offsets from {end_offset} to its base offset are missing, unless they "
            "were compacted before the topic's cleanup policy changed"
        )
    # As a roll does: keeps the producers known when earlier segments are deleted.  Flushed, because
    # the log that is opened next does not know which snapshots are new.
    producer_state_manager.update_map_end_offset(segment.base_offset)
    producer_state_manager.take_snapshot()


def _check_overlap(recovery: SegmentRecovery, later_segments: list[LogSegment]) -> None:
    """Checksums do not cover offsets: no offset may be in two segments."""
    if (
        later_segments
        and recovery.error is None
        and recovery.next_offset > later_segments[0].base_offset
    ):
        recovery.error = CorruptMessage(f"overlaps the next segment {later_segments[0]}")


def _truncate_at_corruption(
    recovery: SegmentRecovery,
    later_segments: list[LogSegment],
    producer_state_manager: ProducerStateManager,
    report: LogLoadReport,
) -> None:
    """Drop everything from the first corrupt batch of the segment on."""
    # Later segments go first: no crash may leave a gap before them.
    mark_segments_deleted_in_reverse(later_segments, producer_state_manager.snapshots)
    removed = recovery.truncate()
    report.removed_bytes += removed + sum(segment.size_bytes for segment in later_segments)
    report.add_problem(
        f"{recovery.segment}: Found invalid messages; discarding {removed} bytes and "
        f"{len(later_segments)} later segment(s): "
        f"{recovery.error}"
    )


def open_log(
    params: LoadLogParams, report: LogLoadReport, *, had_clean_shutdown: bool = False
) -> UnifiedLog:
    """Open the log of a directory that was closed cleanly, was recovered, is empty or is new.

    With ``had_clean_shutdown`` the log must end at its recovery point or beyond.
    """
    try:
        return _load_log(
            params, report, min_end_offset=params.recovery_point if had_clean_shutdown else 0
        )
    except CorruptMessage as error:
        report.add_problem(f"{error}; the active segment is recovered")
    report.merge(recover_log(replace(params, recovery_point=OFFSET_MAX)))
    return _load_log(params, report)


def _load_log(
    params: LoadLogParams, report: LogLoadReport, *, min_end_offset: int = 0
) -> UnifiedLog:
    """Raise CorruptMessage if the log end offset cannot be found."""
    names = prepare_directory(params.directory, report)
    segments = _load_segments(params, names)
    snapshots = [name.offset for name in names if name.file_type is LogFileType.PRODUCER_SNAPSHOT]
    _rebuild_invalid_indexes(params, segments, snapshots, report)
    epochs = _load_leader_epochs(params.directory, segments, report)
    producers = ProducerStateManager(
        params.partition, params.directory, params.producer_settings, snapshot_offsets=snapshots
    )
    if len(segments):
        _check_log_end(segments.active, min_end_offset)
    start_offset, end_offset = _find_log_offsets(params, segments, epochs, report)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    producers.snapshots.remove_strays([*(segment.base_offset for segment in segments), end_offset])
    for problem in rebuild_producer_state(
        producers, segments, end=end_offset, now_ms=params.now_ms
    ):
        report.add_problem(problem)
    # Idle logs hold no memory maps and no descriptors.
    for segment in segments:
        segment.close_handlers()
    components = LogComponents(
        segments=segments,
        producer_state_manager=producers,
        leader_epoch_cache=epochs,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        recovery_point=min(params.recovery_point, end_offset),
    )
    return UnifiedLog(params.directory, params.partition, params.settings, components)


def prepare_directory(directory: Path, report: LogLoadReport) -> list[FileName]:
    """Remove files that are not in use; return the names of the log's files that are."""
    names = _list_files(directory)
    for name, parsed in names.items():
        is_removed = parsed is not None and parsed.stage is FileStage.DELETED
        if is_removed or name.endswith(files.TEMPORARY_SUFFIX):
            files.remove(directory / name)
    if any(
        name is not None and name.stage in (FileStage.CLEANED, FileStage.SWAP)
        for name in names.values()
    ):
        complete_swap_operations(directory)
        names = _list_files(directory)
    in_use = _files_in_use(names)
    split = split_overflowed_segments(directory, _base_offsets(in_use))
    for path in split:
        report.add_problem(f"{path}: offsets overflow the index, segment is split (KAFKA-6264)")
    return _files_in_use(_list_files(directory)) if split else in_use


def _list_files(directory: Path) -> dict[str, FileName | None]:
    return {name: parse_file_name(name) for name in files.system.listdir(directory)}


def _files_in_use(names: dict[str, FileName | None]) -> list[FileName]:
    return [name for name in names.values() if name is not None and name.stage is FileStage.IN_USE]


def _base_offsets(file_names: list[FileName]) -> set[int]:
    return {name.offset for name in file_names if name.file_type is LogFileType.LOG}


def _load_segments(params: LoadLogParams, file_names: list[FileName]) -> LogSegments:
    base_offsets = _base_offsets(file_names)
    for name in file_names:
        if name.file_type in SEGMENT_FILE_TYPES and name.offset not in base_offsets:
            files.remove(params.directory / str(name))
    config = segment_config_for(params.settings)
    segments = LogSegments(LogSegment(params.directory, base, config) for base in base_offsets)
    for segment in segments:
        if segment is not segments.active:
            trim_preallocated_space(segment)
    return segments


def _load_leader_epochs(
    directory: Path, segments: Iterable[LogSegment], report: LogLoadReport
) -> LeaderEpochFileCache:
    path = directory / leader_epoch_file_cache.FILE_NAME
    try:
        if path.exists() or not _have_leader_epochs(segments):
            return LeaderEpochFileCache.load(directory)
        report.add_problem(f"{path} is missing and is rebuilt")
    except (CorruptCheckpoint, CorruptMessage) as error:
        report.add_problem(error)
    epochs = LeaderEpochFileCache(directory)
    for segment in segments:
        try:
            for _, batch in segment.batches():
                update_leader_epochs(batch, epochs)
        except CorruptMessage as error:
            report.add_problem(f"{segment}: {error}")
    return epochs


def _have_leader_epochs(segments: Iterable[LogSegment]) -> bool:
    """Look at the last batch: appending a batch of an old format clears all epochs."""
    last = max(
        (segment for segment in segments if segment.size_bytes),
        key=lambda segment: segment.base_offset,
        default=None,
    )
    location = None if last is None else last.last_batch_location()
    if last is None or location is None:
        return False
    return last.read_batch(location).partition_leader_epoch != NO_PARTITION_LEADER_EPOCH


def _rebuild_invalid_indexes(
    params: LoadLogParams, segments: LogSegments, snapshots: list[int], report: LogLoadReport
) -> None:
    """Rebuild all three indexes of a segment: a missing .txnindex alone cannot be detected."""
    damaged = [segment for segment in segments if not passes_sanity_check(segment, segments)]
    producers: ProducerStateManager | None = None
    previous: LogSegment | None = None
    for segment in damaged:
        report.add_problem(f"{segment}: an index is missing, corrupt or incomplete and is rebuilt")
        if (
            producers is None
            or previous is None
            or segments.higher_segment(previous) is not segment
        ):
            producers = _producer_state_before(segment, params, segments, snapshots, report)
        error = rebuild_transaction_index(segment, producers)
        # Last, because only the state of these two shows that all three must be rebuilt.
        segment.rebuild_indexes()
        if error is not None:
            report.add_problem(f"{segment}: {error}")
        previous = segment


def _producer_state_before(
    segment: LogSegment,
    params: LoadLogParams,
    segments: LogSegments,
    snapshots: list[int],
    report: LogLoadReport,
) -> ProducerStateManager:
    """Load the state without the later snapshots, and keep these for the log itself."""
    end = segment.base_offset
    producers = ProducerStateManager(
        params.partition,
        params.directory,
        params.producer_settings,
        snapshot_offsets=[offset for offset in snapshots if offset <= end],
    )
    # Report damage here: the log itself may start from a later snapshot and never read this part.
    for problem in rebuild_producer_state(producers, segments, end=end, now_ms=params.now_ms):
        report.add_problem(problem)
    return producers


def _find_log_offsets(
    params: LoadLogParams,
    segments: LogSegments,
    leader_epoch_cache: LeaderEpochFileCache,
    report: LogLoadReport,
) -> tuple[int, int]:
    """Return log start and log end offset; create the first segment if there is none."""
    if len(segments):
        end_offset = segments.active.read_next_offset()
        if end_offset >= params.log_start_offset:
            return max(params.log_start_offset, segments.first.base_offset), end_offset
        report.add_problem(
            f"{params.directory}: log end offset {end_offset} is below the log start offset "
            f"{params.log_start_offset}; "
            "all segments are deleted"
        )
        dropped = list(segments)
        segments.remove(dropped)
        for segment in dropped:
            segment.change_file_suffixes(FileStage.DELETED)
        delete_segment_files(dropped)
        leader_epoch_cache.clear()
    first = LogSegment(
        params.directory, params.log_start_offset, segment_config_for(params.settings)
    )
    first.create()
    if params.log_start_offset > 0:
        # Once a segment exists, its base offset replaces the log start offset checkpoint.
        files.sync_directory(params.directory)
    segments.add(first)
    return params.log_start_offset, params.log_start_offset
