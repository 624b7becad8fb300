"""Opening every log of every log directory: what a broker does when it starts.

    survey    the markers of clean shutdowns and the checkpoints are read, the partitions'
              directories are found, and the markers removed.  Nothing is opened before that
    recover   what was not closed cleanly, by workers that the caller supplies
    open      everything, one after the other

A directory that fails on the way goes offline alone, and so does one whose recovery kills its
worker.  A log that can be read but makes no sense, or for which no descriptor was left, is refused
alone, and left as it is.  A partition with two current logs ends the start, unless it is known
which of them has replaced the other (moving.py), or one has never been written to.

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
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.log_loader import Findings, LogPlace, open_log
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.directory_checkpoints import DirectoryCheckpoints
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.moving import is_moving_away, stay
from odradek.storage.manager.recovering import (
    Recovered,
    RecoveryProgress,
    recover_alone,
    unnoticed,
)
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from odradek.storage.paths import (
    Content,
    DirectoryName,
    Purpose,
    directory_named,
    file_named,
    new_directory_name,
)
from odradek.storage.topic_table import TopicTable

#: KRaft's own log is not a topic's.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

Answer = TypeVar("Answer")


class RunAll(Protocol):
    """Runs all tasks, at once or not, and hands out what they return as it comes.

    Tasks and what they return can be pickled, unless it is said otherwise.  If a worker dies it may
    raise BrokenExecutor, or leave answers out, once no other worker is at work any more.  It may be
    called again then, and takes new ones.
    """

    def __call__(self, tasks: Sequence[Callable[[], Answer]], /) -> Iterable[Answer]: ...


def one_after_the_other(tasks: Sequence[Callable[[], Answer]], /) -> Iterator[Answer]:
    return (task() for task in tasks)


class DuplicateLog(Exception):
    """Two log directories hold a log of the same partition: somebody has to remove one."""


@dataclass(slots=True)
class Found:
    """A partition's directory, and what is known of it before it is opened."""

    directory: LogDirectory
    name: DirectoryName
    place: LogPlace
    is_clean: bool
    #: Not in ``place``, as no high watermark confirms it: the end of the log has to.
    doubtful_start: int = 0
    failure: OSError | KafkaError | DecodeError | None = None
    # Of one of several logs of a partition only:
    is_replaced: bool = False
    is_blank: bool = False
    topic_id: Uuid | None = None

    @property
    def partition(self) -> TopicPartition:
        return self.place.partition

    @property
    def key(self) -> tuple[TopicPartition, Purpose]:
        return self.partition, self.name.purpose


@dataclass(frozen=True, slots=True)
class Refused:
    """A log that is there and could not be opened."""

    directory: LogDirectory
    path: Path
    partition: TopicPartition
    why: str
    target: Path | None = None  # a ``-delete`` name that it may have already


@dataclass(slots=True)
class Loaded:
    """What was found in all directories."""

    logs: list[HostedLog] = field(default_factory=list)
    refused: dict[TopicPartition, Refused] = field(default_factory=dict)
    to_remove: list[tuple[LogDirectory, Path]] = field(default_factory=list)
    checkpoints: dict[LogDirectory, DirectoryCheckpoints] = field(default_factory=dict)


class LogDirLoader:
    """One start."""

    def __init__(
        self,
        directories: LogDirectories,
        topics: TopicTable,
        *,
        now_ms: int,
        progress: RecoveryProgress = unnoticed,
    ) -> None:
        self._directories = directories
        self._notice = directories.observer.noticed
        self._topics = topics
        self._now_ms = now_ms
        self._progress = progress
        self._found: list[Found] = []
        self._unclean_counts: Counter[LogDirectory] = Counter()
        self._recovered_counts: Counter[LogDirectory] = Counter()
        self._loaded = Loaded()

    def load(self, run_all: RunAll) -> Loaded:
        """``run_all`` is given the recoveries, which read much and compute much."""
        for directory in self._directories.online:
            with suppress(LogDirectoryOffline), directory.guard("looking for logs"):
                self._survey(directory)
        self._resolve_duplicates()
        self._set_orphans_aside()
        for directory in self._directories.online:
            with suppress(LogDirectoryOffline), directory.guard("removing the marker"):
                directory.remove_marker()
        self._recover(run_all)
        for found in self._found:
            if found.directory.is_online:
                self._open(found)
        self._loaded.logs = [hosted for hosted in self._loaded.logs if hosted.is_usable]
        return self._loaded

    # Survey

    def _survey(self, directory: LogDirectory) -> None:
        was_clean = directory.read_marker()
        checkpoints = DirectoryCheckpoints(directory)
        checkpoints.read(self._notice)
        self._loaded.checkpoints[directory] = checkpoints
        found = []
        for entry in sorted(files.system.listdir(directory.path)):
            path, name = directory.path / entry, directory_named(entry)
            if not path.is_dir():
                continue
            if name is None or name.partition.topic == CLUSTER_METADATA_TOPIC:
                self._notice(f"{path} is not a log's directory, and is left alone")
            elif name.purpose is Purpose.DELETE:
                self._loaded.to_remove.append((directory, path))
            elif name.purpose is Purpose.STRAY:
                self._notice(f"{path} belongs to no topic, and is left alone")
            else:
                log = Found(directory, name, self._place(path, name, checkpoints), was_clean)
                _doubt_start(log, checkpoints)
                found.append(log)
        self._found += found

    def _place(
        self, path: Path, name: DirectoryName, checkpoints: DirectoryCheckpoints
    ) -> LogPlace:
        return self._topics.place(
            path,
            name.partition,
            recovery_point=checkpoints.offset(RECOVERY_POINTS, name.partition) or 0,
            start_offset=checkpoints.offset(LOG_START_OFFSETS, name.partition) or 0,
            now_ms=self._now_ms,
        )

    def _resolve_duplicates(self) -> None:
        kept: dict[tuple[TopicPartition, Purpose], Found] = {}
        for found in self._found:
            other = kept.setdefault(found.key, found)
            if other is found:
                continue
            old = self._out_of_date(other, found)
            kept[found.key] = found if old is other else other
            self._notice(f"{old.place.directory} has been replaced elsewhere, and is removed")
            self._set_aside(old)
        self._found = list(kept.values())

    def _set_orphans_aside(self) -> None:
        """Copies whose logs are nowhere: deleted while the copy's directory was away, or lost."""
        if self._directories.offline:
            return  # where they may be; they may be on a disk, too, that nobody misses
        logs = {found.partition for found in self._found if found.name.purpose is Purpose.LOG}
        for found in [each for each in self._found if each.partition not in logs]:
            path = found.place.directory
            with suppress(LogDirectoryOffline), found.directory.guard(f"looking at {path}"):
                found.is_blank = _is_blank(path)
            outcome = "removed" if found.is_blank else "kept until somebody removes it"
            self._notice(f"{path} is a copy of a log that is gone, and is {outcome}")
            if found.is_blank:
                self._found.remove(found)
                self._set_aside(found)

    def _out_of_date(self, one: Found, other: Found) -> Found:
        """Which of the two logs of a partition has to go: DuplicateLog if that is not known."""
        both = (one, other)
        for each in both:
            with suppress(LogDirectoryOffline), each.directory.guard("comparing logs"):
                each.is_replaced = is_moving_away(each.place.directory)
                each.is_blank = _is_blank(each.place.directory)
                each.topic_id = _topic_id(each.place.directory, Findings())
        offline = [each for each in both if not each.directory.is_online]
        replaced = [each for each in both if each.is_replaced]
        if offline or len(replaced) == 1:
            return (offline or replaced)[0]
        # A new topic of the same name is another matter.
        blank = [each for each in both if each.is_blank]
        is_same_topic = one.topic_id == other.topic_id or None in (one.topic_id, other.topic_id)
        if blank and is_same_topic:
            return blank[-1]
        raise DuplicateLog(
            f"{one.partition} is both in {one.place.directory} and in {other.place.directory}: "
            "remove the one that is out of date, most likely the one on a disk that has failed"
        )

    def _set_aside(self, found: Found) -> None:
        path = found.place.directory
        target = path.with_name(str(new_directory_name(found.partition, Purpose.DELETE)))
        with suppress(LogDirectoryOffline), found.directory.guard(f"renaming {path}"):
            files.rename_durably(path, target)
            self._loaded.to_remove.append((found.directory, target))

    # Recovery

    def _recover(self, run_all: RunAll) -> None:
        unclean: dict[LogDirectory, list[Found]] = {}
        for found in self._found:
            if not found.is_clean and found.directory.is_online:
                unclean.setdefault(found.directory, []).append(found)
        for directory, logs in unclean.items():
            self._unclean_counts[directory] = len(logs)
            self._report(directory)
        with ExitStack() as uses:
            for directory in unclean:
                uses.enter_context(directory.in_use())
            self._recover_all(run_all, unclean)

    def _recover_all(self, run_all: RunAll, unclean: dict[LogDirectory, list[Found]]) -> None:
        # Alternately, so that few workers keep all disks busy.
        turns = chain.from_iterable(zip_longest(*unclean.values()))
        left = self._recover_by(run_all, [found for found in turns if found is not None])
        # A worker that died took the others with it: whose it was shows if each is by itself.
        for directory in unclean:
            again = [found for found in left if found.directory is directory]
            lost = self._recover_by(run_all, again) if again and directory.is_online else []
            if lost:
                what = f"recovering {lost[0].partition}, or one of {len(lost) - 1} others,"
                directory.fail(OSError(errno.EIO, "a worker died"), what)

    def _recover_by(self, run_all: RunAll, logs: Sequence[Found]) -> list[Found]:
        """Those of the logs that a worker took with it when it died."""
        left = dict(enumerate(logs))
        tasks = [
            partial(recover_alone, number, found.place, self._progress)
            for number, found in left.items()
        ]
        with suppress(BrokenExecutor):
            for recovered in run_all(tasks):
                self._recovered(left.pop(recovered.number), recovered)
        return list(left.values())

    def _recovered(self, found: Found, recovered: Recovered) -> None:
        for note in recovered.findings.notes:
            self._notice(note)
        found.failure = recovered.failure
        if isinstance(recovered.failure, OSError):
            with (
                suppress(KafkaStorageError),
                found.directory.guard(f"recovering {found.partition}"),
            ):
                raise recovered.failure
        self._recovered_counts[found.directory] += 1
        self._report(found.directory)

    def _report(self, directory: LogDirectory) -> None:
        self._directories.observer.recovering(
            directory,
            done=self._recovered_counts[directory],
            total=self._unclean_counts[directory],
        )

    # Opening

    def _open(self, found: Found) -> None:
        findings = Findings()
        try:
            with found.directory.guard(f"opening {found.partition}"):
                if found.failure is not None:
                    raise found.failure
                hosted = self._opened(found, findings)
        except LogDirectoryOffline:
            return
        except (KafkaError, DecodeError) as damage:
            self._refuse(found, damage)
            return
        finally:
            for note in findings.notes:
                self._notice(note)
        self._loaded.logs.append(hosted)

    def _opened(self, found: Found, findings: Findings) -> HostedLog:
        if is_moving_away(found.place.directory):
            stay(found.place.directory)
        log = open_log(found.place, findings, was_closed=found.is_clean)
        checkpoints = self._loaded.checkpoints[found.directory]
        high_watermark = checkpoints.offset(HIGH_WATERMARKS, found.partition) or 0
        log.advance_high_watermark(min(max(high_watermark, log.start_offset), log.end_offset))
        if found.doubtful_start > log.end_offset:
            findings.note(
                f"{log.directory}: a start at {found.doubtful_start} is beyond the high watermark "
                f"{high_watermark} and the end {log.end_offset}, and is forgotten"
            )
        elif found.doubtful_start > log.start_offset:
            log.advance_high_watermark(max(log.high_watermark, found.doubtful_start))
            log.advance_start(found.doubtful_start)
        hosted = HostedLog(
            log,
            found.directory,
            topic_id=_topic_id(found.place.directory, findings),
            is_future=found.name.purpose is Purpose.FUTURE,
        )
        hosted.is_mended = not found.is_clean or bool(findings.notes)
        return hosted

    def _refuse(self, found: Found, damage: KafkaError | DecodeError) -> None:
        path = found.place.directory
        why = f"{path} cannot be opened: {damage}"
        if found.name.purpose is Purpose.FUTURE:
            # The log itself is elsewhere, and can be copied again.
            self._notice(f"{why}; it is only a copy, and is removed")
            self._set_aside(found)
            return
        self._notice(why)
        self._loaded.checkpoints[found.directory].keep(found.partition)
        self._loaded.refused[found.partition] = Refused(found.directory, path, found.partition, why)


def _doubt_start(found: Found, checkpoints: DirectoryCheckpoints) -> None:
    """A start beyond the high watermark may be right, as Kafka writes the two at different times.

    If it is wrong and lies beyond the end, all of the log would go.
    """
    place = found.place
    high_watermark = checkpoints.offset(HIGH_WATERMARKS, place.partition)
    if high_watermark is not None and place.start_offset > max(
        high_watermark, place.recovery_point
    ):
        found.doubtful_start = place.start_offset
        found.place = replace(place, start_offset=0)


def _is_blank(directory: Path) -> bool:
    """Whether nothing has ever been written to the log: making it may have failed half-way."""
    names = [file_named(name) for name in files.system.listdir(directory)]
    batches = [name for name in names if name is not None and name.content is Content.BATCHES]
    return all(name.offset == 0 and not files.size_of(directory / str(name)) for name in batches)


def _topic_id(directory: Path, findings: Findings) -> Uuid | None:
    """None if it is not known; it will be told again."""
    try:
        return partition_metadata.read(directory)
    except CheckpointDamaged as damage:
        findings.note(f"{damage}; the file is removed")
        files.remove(directory / partition_metadata.FILE_NAME)
        return None
