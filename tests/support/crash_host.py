"""A few logs under a log manager, worked on step by step, each step told to a listener.

    log PLAIN       segments of a few batches, deleted by size
        ROOMY       the same, with preallocated files
        COMPACTED   keyed records

Segments and indexes are small, so that a few dozen batches go through every kind of file.

Owner: the test's thread, or the writer process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import execute
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
from odradek.storage.unified_log import UnifiedLog
from tests.support.crash_steps import Ends, Kind, Listener, Outcome, SentBatch, Step
from tests.support.logs import NOW_MS, PRODUCER_SETTINGS

PLAIN, ROOMY, COMPACTED = range(3)
LOGS = (TopicPartition("plain", 0), TopicPartition("roomy", 3), TopicPartition("compacted", 0))
TOPIC_IDS = tuple(Uuid(bytes([number + 1]) * 16) for number in range(len(LOGS)))

_SMALL = {
    "segment_bytes": 1000,
    "index_interval_bytes": 150,
    "segment_index_bytes": 240,
    "file_delete_delay_ms": 0,
}
TOPICS = {
    "plain": TopicSettings(retention_bytes=3000, **_SMALL),
    "roomy": TopicSettings(retention_bytes=3000, preallocate=True, **_SMALL),
    "compacted": TopicSettings(
        cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, **_SMALL
    ),
}
CLEANER = CleanerSettings(dedupe_buffer_bytes=2 << 20, io_buffer_bytes=1 << 16)


class Notes:
    """What the logs reported."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def on_warning(self, message: str) -> None:
        self.all.append(message)

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        return

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        self.all.append(f"{directory} failed")


class CrashHost:
    """The logs of one log directory."""

    def __init__(self, root: Path, listener: Listener) -> None:
        self.root = root
        self.listener = listener
        self.notes = Notes()
        self.directories = LogDirectories([root], self.notes)
        topics = TopicSettingsRegistry(TopicSettings(), PRODUCER_SETTINGS, TOPICS)
        self.manager = LogManager(self.directories, topics)

    def open(self) -> None:
        """As a broker starts: recover if need be, and make what is missing."""
        self.directories.open()
        self.manager.load(now_ms=NOW_MS)
        for number in range(len(LOGS)):
            self._create(number)

    def _create(self, number: int) -> None:
        hosted = self.manager.get_or_create_log(
            LOGS[number], topic_id=TOPIC_IDS[number], now_ms=NOW_MS
        )
        with hosted as log:
            log.update_high_watermark(log.log_end_offset)

    def abandon(self) -> None:
        self.manager.close_handlers()

    def hosted(self, number: int) -> HostedLog:
        found = self.manager.find(LOGS[number])
        assert found is not None, LOGS[number]
        return found

    def log(self, number: int) -> UnifiedLog:
        return self.hosted(number).log

    def ends(self, number: int) -> Ends:
        log = self.log(number)
        first = log.segments.first.base_offset
        return Ends(first, log.log_start_offset, log.log_end_offset, log.recovery_point)

    @contextmanager
    def _telling(self, step: Step) -> Iterator[None]:
        """For steps of which nothing matters but that they are done, and where the logs end."""
        self.listener.begin(step)
        yield
        for directory in self.directories.offline:
            # Some steps go on without it, if others are left.
            raise directory.offline_error()
        self.listener.done(step, self._outcome())

    def _outcome(self, first_offset: int = -1, is_duplicate: bool = False) -> Outcome:
        ends = {number: self.ends(number) for number in range(len(LOGS))}
        return Outcome(ends, first_offset, is_duplicate)

    def append(self, number: int, batch: SentBatch) -> Outcome:
        step = Step(Kind.APPEND, number, batch=batch)
        self.listener.begin(step)
        with self.hosted(number) as log:
            records = batch.encoded()
            if batch.base_offset is not None:
                written = log.append_as_follower(records, now_ms=NOW_MS)
            else:
                origin = AppendOrigin.COORDINATOR if batch.ends else AppendOrigin.CLIENT
                written = log.append_as_leader(
                    records, leader_epoch=batch.leader_epoch, origin=origin, now_ms=NOW_MS
                )
            log.update_high_watermark(log.log_end_offset)
        outcome = self._outcome(written.first_offset, written.is_duplicate)
        self.listener.done(step, outcome)
        return outcome

    def roll(self, number: int) -> None:
        with self._telling(Step(Kind.ROLL, number)), self.hosted(number) as log:
            log.roll(now_ms=NOW_MS)

    def flush(self, number: int) -> None:
        with self._telling(Step(Kind.FLUSH, number)):
            work = self.hosted(number).flush_task(now_ms=NOW_MS)
            assert work is not None, number
            execute(work)

    def checkpoint(self) -> None:
        with self._telling(Step(Kind.CHECKPOINT)):
            for work in self.manager.checkpoint_tasks():
                execute(work)

    def truncate(self, number: int, offset: int) -> None:
        with self._telling(Step(Kind.TRUNCATE, number, offset)):
            execute(self.manager.truncate(self.hosted(number), offset, now_ms=NOW_MS))

    def restart(self, number: int, new_start: int) -> None:
        with self._telling(Step(Kind.RESTART, number, new_start)):
            execute(
                self.manager.truncate_fully_and_start_at(
                    self.hosted(number), new_start, now_ms=NOW_MS
                )
            )

    def delete_records(self, number: int, offset: int) -> None:
        """As DeleteRecords does: it is answered before it is checkpointed."""
        with self._telling(Step(Kind.DELETE_RECORDS, number, offset)), self.hosted(number) as log:
            log.maybe_increment_log_start_offset(offset)

    def retain(self, *, now_ms: int = NOW_MS) -> None:
        """Far in the future, everything is too old."""
        with self._telling(Step(Kind.RETAIN)):
            for work in self.manager.maintenance.apply_retention(now_ms).tasks:
                execute(work)

    def remove(self) -> None:
        """The files of what was deleted."""
        with self._telling(Step(Kind.REMOVE)):
            for work in self.manager.maintenance.due_removal_tasks(NOW_MS * 2):
                execute(work)

    def compact(self) -> None:
        """The log that needs it most, if one does."""
        compaction = self.manager.maintenance.next_compaction(NOW_MS, CLEANER)
        if compaction is None:
            return
        task, number = compaction.task, LOGS.index(compaction.partition)
        with self._telling(Step(Kind.COMPACT, number, task.first_uncleanable_offset)), compaction:
            for work in compaction.replace_segments(clean(task), now_ms=NOW_MS):
                execute(work)

    def recreate(self, number: int) -> None:
        """Delete the log, and make another of the same name."""
        with self._telling(Step(Kind.RECREATE, number)):
            self.manager.delete(LOGS[number])
            for work in self.manager.deletion_tasks(now_ms=NOW_MS):
                execute(work)
            self._create(number)

    def close(self) -> None:
        """The last step of a host."""
        with self._telling(Step(Kind.CLOSE)):
            self.manager.close(now_ms=NOW_MS)
