"""Loads the logs of all log directories when the broker starts.

Kafka: LogManager.loadLogs.

    scan      Read the clean shutdown markers and the checkpoints, find the directories of the logs,
              and remove the markers.  No log is opened before that
    recover   Recover the logs without a clean shutdown, in workers that the caller supplies
    open      Open all logs, one after the other

A directory that fails meanwhile goes offline alone; so does one whose recovery kills its worker.  A
log that is corrupt, or for which no file descriptor was left, is skipped alone, and its files are
not changed.  A partition with two current logs aborts the startup, unless it is known which one has
replaced the other (log_dir_move.py), or one was never written to.

Owner: the event loop.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Protocol, TypeVar

from odradek.protocol.errors import DecodeError, KafkaError, KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.directory_checkpoints import DirectoryCheckpoints
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_dir_move import has_move_marker, remove_move_marker
from odradek.storage.manager.log_recovery import (
    LogRecoveryResult,
    RecoveryProgress,
    ignore_progress,
    recover_in_worker,
)
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from odradek.storage.paths import (
    DirectoryName,
    DirectoryType,
    LogFileType,
    new_directory_name,
    parse_directory_name,
    parse_file_name,
)
from odradek.storage.topic_settings_registry import TopicSettingsRegistry

#: The log of KRaft is not the log of a topic.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

Result = TypeVar("Result")


class TaskRunner(Protocol):
    """Runs all tasks, concurrently or not, and yields their results as they arrive.

    Tasks and results can be pickled, unless stated otherwise.  If a worker dies, the runner may
    raise BrokenExecutor or omit results, but only after all other workers have ended.  It may then
    be called again, and uses new workers.
    """

    def __call__(self, tasks: Sequence[Callable[[], Result]], /) -> Iterable[Result]: ...


def run_sequentially(tasks: Sequence[Callable[[], Result]], /) -> Iterator[Result]:
    return (task() for task in tasks)


class DuplicateLog(Exception):
    """Two log directories hold a log of the same partition.  An operator must remove one."""


@dataclass(slots=True)
class CandidateLog:
    """The directory of a log, and what is known about it before it is opened."""

    directory: LogDirectory
    directory_name: DirectoryName
    params: LoadLogParams
    had_clean_shutdown: bool
    #: Removed from ``params``, because the high watermark is lower; checked against the log end.
    unconfirmed_start_offset: int = 0
    error: OSError | KafkaError | DecodeError | None = None
    # Set only for logs that may be stale:
    is_replaced: bool = False
    is_unwritten: bool = False
    topic_id: Uuid | None = None

    @property
    def partition(self) -> TopicPartition:
        return self.params.partition

    @property
    def key(self) -> tuple[TopicPartition, DirectoryType]:
        return self.partition, self.directory_name.directory_type


@dataclass(frozen=True, slots=True)
class UnloadableLog:
    """A log that exists and could not be opened."""

    directory: LogDirectory
    path: Path
    partition: TopicPartition
    reason: str
    delete_path: Path | None = None  # its ``-delete`` name, if it may already have one


@dataclass(slots=True)
class LoadedLogs:
    """The result of loading all directories."""

    logs: list[HostedLog] = field(default_factory=list)
    unloadable: dict[TopicPartition, UnloadableLog] = field(default_factory=dict)
    to_delete: list[tuple[LogDirectory, Path]] = field(default_factory=list)
    checkpoints: dict[LogDirectory, DirectoryCheckpoints] = field(default_factory=dict)


class LogDirLoader:
    """Loads all directories once."""

    def __init__(
        self,
        directories: LogDirectories,
        topic_settings: TopicSettingsRegistry,
        *,
        now_ms: int,
        progress: RecoveryProgress = ignore_progress,
    ) -> None:
        self._directories = directories
        self._warn = directories.observer.on_warning
        self._topic_settings = topic_settings
        self._now_ms = now_ms
        self._progress = progress
        self._candidates: list[CandidateLog] = []
        self._unclean_counts: Counter[LogDirectory] = Counter()
        self._recovered_counts: Counter[LogDirectory] = Counter()
        self._loaded = LoadedLogs()

    def load(self, run_all: TaskRunner) -> LoadedLogs:
        """``run_all`` runs the recoveries, which read and compute a lot."""
        for directory in self._directories.online:
            with suppress(LogDirectoryOffline), directory.guard("scanning for logs"):
                self._scan_directory(directory)
        self._resolve_duplicates()
        self._delete_orphaned_future_logs()
        for directory in self._directories.online:
            with (
                suppress(LogDirectoryOffline),
                directory.guard("removing the clean shutdown marker"),
            ):
                directory.remove_clean_shutdown_marker()
        self._recover(run_all)
        for candidate in self._candidates:
            if candidate.directory.is_online:
                self._open(candidate)
        self._loaded.logs = [hosted_log for hosted_log in self._loaded.logs if hosted_log.is_usable]
        return self._loaded

    # Scan

    def _scan_directory(self, directory: LogDirectory) -> None:
        was_clean = directory.read_clean_shutdown_marker()
        checkpoints = DirectoryCheckpoints(directory)
        checkpoints.read(self._warn)
        self._loaded.checkpoints[directory] = checkpoints
        candidates = []
        for entry in sorted(files.system.listdir(directory.path)):
            path, name = directory.path / entry, parse_directory_name(entry)
            if not path.is_dir():
                continue
            if name is None or name.partition.topic == CLUSTER_METADATA_TOPIC:
                self._warn(f"Skipping {path}: it is not the directory of a log")
            elif name.directory_type is DirectoryType.DELETE:
                self._loaded.to_delete.append((directory, path))
            elif name.directory_type is DirectoryType.STRAY:
                self._warn(f"Skipping {path}: it is a stray log of no topic")
            else:
                candidate = CandidateLog(
                    directory, name, self._load_params(path, name, checkpoints), was_clean
                )
                _defer_unconfirmed_start_offset(candidate, checkpoints)
                candidates.append(candidate)
        self._candidates += candidates

    def _load_params(
        self, path: Path, name: DirectoryName, checkpoints: DirectoryCheckpoints
    ) -> LoadLogParams:
        return self._topic_settings.load_params(
            path,
            name.partition,
            recovery_point=checkpoints.offset(RECOVERY_POINTS, name.partition) or 0,
            log_start_offset=checkpoints.offset(LOG_START_OFFSETS, name.partition) or 0,
            now_ms=self._now_ms,
        )

    def _resolve_duplicates(self) -> None:
        candidates_by_key: dict[tuple[TopicPartition, DirectoryType], CandidateLog] = {}
        for candidate in self._candidates:
            other = candidates_by_key.setdefault(candidate.key, candidate)
            if other is candidate:
                continue
            stale = self._find_stale(other, candidate)
            candidates_by_key[candidate.key] = candidate if stale is other else other
            self._warn(f"Removing {stale.params.directory}: a log elsewhere has replaced it")
            self._mark_deleted(stale)
        self._candidates = list(candidates_by_key.values())

    def _delete_orphaned_future_logs(self) -> None:
        """Delete empty future logs without a current log.

        The current log was deleted while the directory of the future log was offline, or is lost.
        """
        if self._directories.offline:
            # The current logs may be there.  They may also be on a disk that is not configured, so
            # only empty future logs are deleted below.
            return
        logs = {
            candidate.partition
            for candidate in self._candidates
            if candidate.directory_name.directory_type is DirectoryType.LOG
        }
        for candidate in [
            candidate for candidate in self._candidates if candidate.partition not in logs
        ]:
            path = candidate.params.directory
            with suppress(LogDirectoryOffline), candidate.directory.guard(f"reading {path}"):
                candidate.is_unwritten = _is_unwritten(path)
            outcome = "removing it" if candidate.is_unwritten else "keeping it; remove it manually"
            self._warn(f"Found future log {path} without a current log: {outcome}")
            if candidate.is_unwritten:
                self._candidates.remove(candidate)
                self._mark_deleted(candidate)

    def _find_stale(self, one: CandidateLog, other: CandidateLog) -> CandidateLog:
        """Return the log to delete of two logs of a partition, or raise DuplicateLog."""
        both = (one, other)
        for candidate in both:
            with suppress(LogDirectoryOffline), candidate.directory.guard("comparing logs"):
                candidate.is_replaced = has_move_marker(candidate.params.directory)
                candidate.is_unwritten = _is_unwritten(candidate.params.directory)
                candidate.topic_id = _read_topic_id(candidate.params.directory, LogLoadReport())
        offline = [candidate for candidate in both if not candidate.directory.is_online]
        replaced = [candidate for candidate in both if candidate.is_replaced]
        if offline or len(replaced) == 1:
            return (offline or replaced)[0]
        # An empty log is only stale if it is not of a new topic of the same name.
        unwritten = [candidate for candidate in both if candidate.is_unwritten]
        is_same_topic = one.topic_id == other.topic_id or None in (one.topic_id, other.topic_id)
        if unwritten and is_same_topic:
            return unwritten[-1]
        raise DuplicateLog(
            f"Duplicate logs found for {one.partition}: {one.params.directory} and "
            f"{other.params.directory}; "
            "remove the one that is out of date, most likely the one on a disk that has failed"
        )

    def _mark_deleted(self, candidate: CandidateLog) -> None:
        path = candidate.params.directory
        target = path.with_name(str(new_directory_name(candidate.partition, DirectoryType.DELETE)))
        with suppress(LogDirectoryOffline), candidate.directory.guard(f"renaming {path}"):
            files.rename_durably(path, target)
            self._loaded.to_delete.append((candidate.directory, target))

    # Recovery

    def _recover(self, run_all: TaskRunner) -> None:
        unclean: dict[LogDirectory, list[CandidateLog]] = {}
        for candidate in self._candidates:
            if not candidate.had_clean_shutdown and candidate.directory.is_online:
                unclean.setdefault(candidate.directory, []).append(candidate)
        for directory, logs in unclean.items():
            self._unclean_counts[directory] = len(logs)
            self._report_progress(directory)
        with ExitStack() as uses:
            for directory in unclean:
                uses.enter_context(directory.in_use())
            self._recover_all(run_all, unclean)

    def _recover_all(
        self, run_all: TaskRunner, unclean: dict[LogDirectory, list[CandidateLog]]
    ) -> None:
        # Interleave the directories, so that few workers keep all disks busy.
        interleaved = chain.from_iterable(zip_longest(*unclean.values()))
        remaining = self._recover_with(
            run_all, [candidate for candidate in interleaved if candidate is not None]
        )
        # A worker that dies takes the others down.  Retry each directory alone to find the cause.
        for directory in unclean:
            retries = [candidate for candidate in remaining if candidate.directory is directory]
            failed = self._recover_with(run_all, retries) if retries and directory.is_online else []
            if failed:
                operation = (
                    f"recovering {failed[0].partition} or one of {len(failed) - 1} other logs"
                )
                directory.mark_offline(OSError(errno.EIO, "a recovery worker died"), operation)

    def _recover_with(
        self, run_all: TaskRunner, candidates: Sequence[CandidateLog]
    ) -> list[CandidateLog]:
        """Return the logs that were not recovered because a worker died."""
        remaining = dict(enumerate(candidates))
        tasks = [
            partial(recover_in_worker, index, candidate.params, self._progress)
            for index, candidate in remaining.items()
        ]
        with suppress(BrokenExecutor):
            for recovered in run_all(tasks):
                self._on_recovered(remaining.pop(recovered.index), recovered)
        return list(remaining.values())

    def _on_recovered(self, candidate: CandidateLog, result: LogRecoveryResult) -> None:
        for problem in result.report.problems:
            self._warn(problem)
        candidate.error = result.error
        if isinstance(result.error, OSError):
            with (
                suppress(KafkaStorageError),
                candidate.directory.guard(f"recovering {candidate.partition}"),
            ):
                raise result.error
        self._recovered_counts[candidate.directory] += 1
        self._report_progress(candidate.directory)

    def _report_progress(self, directory: LogDirectory) -> None:
        self._directories.observer.on_recovery_progress(
            directory,
            done=self._recovered_counts[directory],
            total=self._unclean_counts[directory],
        )

    # Opening

    def _open(self, candidate: CandidateLog) -> None:
        report = LogLoadReport()
        try:
            with candidate.directory.guard(f"opening {candidate.partition}"):
                if candidate.error is not None:
                    raise candidate.error
                hosted_log = self._load_log(candidate, report)
        except LogDirectoryOffline:
            return
        except (KafkaError, DecodeError) as error:
            self._mark_unloadable(candidate, error)
            return
        finally:
            for problem in report.problems:
                self._warn(problem)
        self._loaded.logs.append(hosted_log)

    def _load_log(self, candidate: CandidateLog, report: LogLoadReport) -> HostedLog:
        if has_move_marker(candidate.params.directory):
            remove_move_marker(candidate.params.directory)
        log = open_log(candidate.params, report, had_clean_shutdown=candidate.had_clean_shutdown)
        checkpoints = self._loaded.checkpoints[candidate.directory]
        high_watermark = checkpoints.offset(HIGH_WATERMARKS, candidate.partition) or 0
        log.update_high_watermark(
            min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        )
        if candidate.unconfirmed_start_offset > log.log_end_offset:
            report.add_problem(
                f"{log.directory}: ignoring the checkpointed log start offset "
                f"{candidate.unconfirmed_start_offset}: it is beyond the high watermark "
                f"{high_watermark} and the log end offset {log.log_end_offset}"
            )
        elif candidate.unconfirmed_start_offset > log.log_start_offset:
            log.update_high_watermark(max(log.high_watermark, candidate.unconfirmed_start_offset))
            log.maybe_increment_log_start_offset(candidate.unconfirmed_start_offset)
        hosted_log = HostedLog(
            log,
            candidate.directory,
            topic_id=_read_topic_id(candidate.params.directory, report),
            is_future=candidate.directory_name.directory_type is DirectoryType.FUTURE,
        )
        hosted_log.is_repaired = not candidate.had_clean_shutdown or bool(report.problems)
        return hosted_log

    def _mark_unloadable(self, candidate: CandidateLog, error: KafkaError | DecodeError) -> None:
        path = candidate.params.directory
        reason = f"{path} cannot be opened: {error}"
        if candidate.directory_name.directory_type is DirectoryType.FUTURE:
            # The current log is elsewhere, and can be copied again.
            self._warn(f"{reason}; removing it, because it is a future log")
            self._mark_deleted(candidate)
            return
        self._warn(reason)
        self._loaded.checkpoints[candidate.directory].retain(candidate.partition)
        self._loaded.unloadable[candidate.partition] = UnloadableLog(
            candidate.directory, path, candidate.partition, reason
        )


def _defer_unconfirmed_start_offset(
    candidate: CandidateLog, checkpoints: DirectoryCheckpoints
) -> None:
    """Defer a start offset above the high watermark until the log end offset is known.

    It may be valid, because Kafka writes the two checkpoints at different times.  If it is wrong
    and exceeds the log end offset, using it would delete the whole log.
    """
    params = candidate.params
    high_watermark = checkpoints.offset(HIGH_WATERMARKS, params.partition)
    if high_watermark is not None and params.log_start_offset > max(
        high_watermark, params.recovery_point
    ):
        candidate.unconfirmed_start_offset = params.log_start_offset
        candidate.params = replace(params, log_start_offset=0)


def _is_unwritten(directory: Path) -> bool:
    """Return whether the log was never written to; its creation may have failed half-way."""
    file_names = [parse_file_name(name) for name in files.system.listdir(directory)]
    log_files = [
        name for name in file_names if name is not None and name.file_type is LogFileType.LOG
    ]
    return all(name.offset == 0 and not files.size_of(directory / str(name)) for name in log_files)


def _read_topic_id(directory: Path, report: LogLoadReport) -> Uuid | None:
    """Return None if the topic id is unknown; the controller will send it again."""
    try:
        return partition_metadata.read(directory)
    except CorruptCheckpoint as error:
        report.add_problem(f"{error}; removing the file")
        files.remove(directory / partition_metadata.FILE_NAME)
        return None
