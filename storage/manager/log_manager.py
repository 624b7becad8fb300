"""All logs of a broker: opened, made, found, deleted, moved, closed.

    directories   the log directories: directories.py
    topics        the settings of topics: topic_table.py
    logs          which log is where: registry.py
    upkeep        what is due from time to time: upkeep.py
    cleaner       who is compacted when: cleaner/schedule.py

The caller has the clock and the threads.  What sleeps in the kernel comes back as DiskWork
(disk_work.py), and the logs are used through HostedLog.  A directory that fails takes its logs with
it, wherever the failure is noticed; the others go on.

Before a log is deleted, replaced, or cut below its active segment, its compaction has to be paused.

Work that ends in OutOfDescriptors is handed out again by whoever handed it out; a log that was left
half changed by it is out of use until ``mendings`` are carried out, to be asked for like upkeep.

Owner: the event loop.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from odradek.protocol.errors import InconsistentTopicId, KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.clean_shutdown import NO_BROKER_EPOCH
from odradek.storage.cleaner.schedule import CleanerSchedule
from odradek.storage.log_truncation import Truncation, plan_new_beginning, plan_truncation
from odradek.storage.manager.checkpoint_work import CheckpointWork
from odradek.storage.manager.closing import close_directory, close_logs
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_work import DiskWork, carry_out
from odradek.storage.manager.doomed_logs import DoomedLogs
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.loading import (
    LogDirLoader,
    Refused,
    RunAll,
    one_after_the_other,
)
from odradek.storage.manager.making import LogMaking
from odradek.storage.manager.mending import LogMending
from odradek.storage.manager.moving import LogDirMove
from odradek.storage.manager.recovering import RecoveryProgress, unnoticed
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.manager.upkeep import LogUpkeep
from odradek.storage.open_segments import OutOfDescriptors, retriable
from odradek.storage.paths import Purpose, new_directory_name
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_table import TopicTable


class LogManager:
    """The logs in all log directories, which have been opened."""

    def __init__(self, directories: LogDirectories, topics: TopicTable) -> None:
        self.directories = directories
        self.topics = topics
        self.logs = LogRegistry()
        self.cleaner = CleanerSchedule()
        self.upkeep = LogUpkeep(self.logs, self.cleaner)
        self._checkpoints = CheckpointWork(self.logs, self.cleaner)
        self._doomed = DoomedLogs(self._checkpoints, self.upkeep.removals)
        self._making = LogMaking(self.logs, self._doomed, topics)
        self._mending = LogMending(
            self.logs, topics, self.cleaner, self._checkpoints, directories.observer.noticed
        )
        self._refused: dict[TopicPartition, Refused] = {}
        self._refused_to_delete: list[Refused] = []
        self._refused_on_their_way: list[Refused] = []
        self._to_name: list[LogDirMove] = []
        directories.on_failure = self._directory_failed

    def load(
        self,
        *,
        now_ms: int,
        run_all: RunAll = one_after_the_other,
        progress: RecoveryProgress = unnoticed,
    ) -> None:
        """Open every log there is; ``run_all`` gets what has to be recovered.

        DuplicateLog if a partition has two and it is not known which is out of date.
        """
        loader = LogDirLoader(self.directories, self.topics, now_ms=now_ms, progress=progress)
        loaded = loader.load(run_all)
        self._refused = loaded.refused
        for hosted in loaded.logs:
            self.logs.add(hosted)
        for directory, checkpoints in loaded.checkpoints.items():
            with suppress(LogDirectoryOffline), directory.guard("going through its checkpoints"):
                # Lines of logs that are gone must not meet new logs of the same names.
                self.cleaner.open(directory.path)
                present = {hosted.partition for hosted in self.logs.in_directory(directory)}
                self.cleaner.forget_others(directory.path, present)
                self._checkpoints.add(checkpoints)
                carry_out(self._checkpoints.work(directory))
        for directory, path in loaded.to_remove:
            self.upkeep.removals.add_log(directory, path, now_ms + self._delete_delay_ms)

    @property
    def _delete_delay_ms(self) -> int:
        return self.topics.defaults.file_delete_delay_ms

    # Finding and making

    def find(self, partition: TopicPartition) -> HostedLog | None:
        """KafkaStorageError if it is there and could not be opened."""
        if partition in self._refused:
            raise KafkaStorageError(self._refused[partition].why)
        return self.logs.current.get(partition)

    def find_future(self, partition: TopicPartition) -> HostedLog | None:
        return self.logs.future.get(partition)

    def create(
        self,
        partition: TopicPartition,
        *,
        topic_id: Uuid | None = None,
        directory: LogDirectory | None = None,
        is_new: bool = True,
        now_ms: int,
    ) -> HostedLog:
        """The partition's log, made if there is none: in ``directory`` or where the fewest are.

        One that is not new should have been there: it may be in a directory that is offline.
        """
        hosted = self.find(partition)
        if hosted is None:
            if not is_new:
                self._check_all_online(partition)
            places = self.directories.online if directory is None else [directory]
            return self._making.make(partition, Purpose.LOG, places, topic_id, now_ms)
        with hosted as log, retriable():
            if topic_id is not None and hosted.topic_id is None:
                partition_metadata.write(log.directory, topic_id, is_synced=False)
                hosted.topic_id, hosted.is_name_synced = topic_id, False
        if topic_id is not None and topic_id != hosted.topic_id:
            raise InconsistentTopicId(
                f"{partition} is of the topic with id {hosted.topic_id}, not {topic_id}"
            )
        return hosted

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        """The topic's settings have changed; None are those of topics that have none."""
        self.topics.change(topic, settings)
        self._configure_all()

    def configure_defaults(self, defaults: TopicSettings) -> None:
        """The settings of topics that have none of their own have changed."""
        self.topics.defaults = defaults
        self._configure_all()

    def _configure_all(self) -> None:
        for hosted in self.logs:
            settings = self.topics[hosted.partition.topic]
            if settings is not hosted.log.settings:
                hosted.log.configure(settings)

    # Cutting and deleting

    def truncate(self, hosted: HostedLog, offset: int, *, now_ms: int) -> DiskWork:
        """Cut the end of a log.  Nothing must be appended to it before the work is done.

        Else a power cut could leave new records where old ones are known to be synced, or old
        records behind new ones.  Nor must it be cut again.  Before the first segment, it is as
        ``truncate_fully``.
        """
        self._check_nobody_else_works_on(hosted, offset)
        with hosted as log:
            notice = self.directories.observer.noticed
            truncation = plan_truncation(log, offset, now_ms=now_ms, notice=notice)
        return self._truncated(hosted, truncation, now_ms)

    def truncate_fully(
        self, hosted: HostedLog, new_start: int, *, start_offset: int | None = None, now_ms: int
    ) -> DiskWork:
        """Begin the log anew.  Nothing must be appended to it before the work is done.

        Unlike ``truncate`` it sleeps by itself, once for each segment, unless they are bare: so it
        is for a log that was truncated to its first offset, and is carried out, before.
        """
        self._check_nobody_else_works_on(hosted)
        with hosted as log:
            truncation = plan_new_beginning(log, new_start, start_offset=start_offset)
        return self._truncated(hosted, truncation, now_ms)

    def _truncated(self, hosted: HostedLog, truncation: Truncation, now_ms: int) -> DiskWork:
        if not hosted.is_future:
            self.cleaner.truncated(hosted.log, hosted.log.end_offset)
        hosted.is_being_cut = True

        def run() -> None:
            # One that has been deleted meanwhile may have another name already.
            if not hosted.is_deleted:
                truncation.run()

        def ended(is_done: bool) -> None:
            hosted.is_being_cut = False
            if is_done:
                self.upkeep.remove_later(hosted, truncation.dropped, now_ms=now_ms)
            else:
                hosted.is_in_doubt = True

        return self._checkpoints.work(
            hosted.directory, what=f"truncating {hosted.partition}", first=run, ended=ended
        )

    def delete(self, partition: TopicPartition) -> bool:
        """Take a partition's log out of use, and its copy; False if there is none.

        ``deletions`` have to follow.  One that could not be opened can be deleted all the same.
        """
        refused = self._refused.pop(partition, None)
        if refused is not None:
            self._refused_to_delete.append(refused)
        current = self.find(partition)
        if current is None and refused is None:
            self._check_all_online(partition)
        logs = [current, self.find_future(partition)]
        found = [hosted for hosted in logs if hosted is not None]
        for hosted in found:
            if not hosted.directory.is_online:
                raise hosted.directory.offline()
            self._check_nobody_else_works_on(hosted)
        for hosted in found:
            self.logs.remove(hosted)
            self._doomed.doom(hosted)
        self.cleaner.deleted(partition)
        return bool(found) or refused is not None

    def deletions(self, *, now_ms: int) -> list[DiskWork]:
        """What remains to be done about logs that have been deleted or replaced."""
        to_name, self._to_name = self._to_name, []
        works = [self._naming(move) for move in to_name if move.future.directory.is_online]
        works += self._doomed.works(delay_ms=self._delete_delay_ms, now_ms=now_ms)
        refused, self._refused_to_delete = self._refused_to_delete, []
        online = [each for each in refused if each.directory.is_online]
        return works + [self._delete_refused(each, now_ms) for each in online]

    def _delete_refused(self, refused: Refused, now_ms: int) -> DiskWork:
        directory, path = refused.directory, refused.path
        name = str(new_directory_name(refused.partition, Purpose.DELETE))
        target = refused.target or path.with_name(name)
        self._checkpoints.of(directory).forget(refused.partition)
        self._refused_on_their_way.append(refused)

        def ended(is_done: bool) -> None:
            self._refused_on_their_way.remove(refused)
            if is_done:
                self.upkeep.removals.add_log(directory, target, now_ms + self._delete_delay_ms)
            else:
                self._refused_to_delete.append(replace(refused, target=target))

        return self._checkpoints.work(
            directory,
            what=f"deleting {path}",
            first=partial(_rename, path, target),
            ended=ended,
        )

    # Moving to another directory

    def create_future(
        self, partition: TopicPartition, directory: LogDirectory, *, now_ms: int
    ) -> HostedLog:
        """A copy on the way, empty as yet, in another directory than the log's."""
        current = self.logs.current[partition]
        assert directory is not current.directory, current
        assert partition not in self.logs.future, current
        with current:
            return self._making.make(
                partition, Purpose.FUTURE, [directory], current.topic_id, now_ms
            )

    def delete_future(self, partition: TopicPartition) -> None:
        """Give up a copy on the way.  ``deletions`` have to follow."""
        future = self.logs.future[partition]
        if not future.directory.is_online:
            raise future.directory.offline()
        self._check_nobody_else_works_on(future)
        self.logs.remove(future)
        self._doomed.doom(future)

    def prepare_move(self, partition: TopicPartition, *, now_ms: int) -> list[DiskWork]:
        """The copy has caught up.  To be carried out in this order."""
        return LogDirMove(partition, self.logs).prepare(now_ms=now_ms)

    def finish_move(self, partition: TopicPartition) -> DiskWork | None:
        """Go over to the copy; None if it has fallen behind, and has to be prepared again.

        When the work is done, ``deletions`` have to follow.
        """
        move = LogDirMove(partition, self.logs)
        with move.current, move.future:
            self._check_nobody_else_works_on(move.current)
            self._check_nobody_else_works_on(move.future)
            if not move.is_ready or move.future.is_being_cut:
                return None
        move.swap(self._doomed)
        source, target = move.current.directory, move.future.directory
        self.cleaner.moved(partition, source=source.path, target=target.path)
        return self._naming(move)

    def _naming(self, move: LogDirMove) -> DiskWork:
        def ended(is_done: bool) -> None:
            if is_done:
                self._doomed.unkeep(move.current)
            else:
                self._to_name.append(move)

        return move.naming(self._checkpoints, ended=ended)

    # Checkpoints and the end

    def mendings(self, *, now_ms: int) -> list[DiskWork]:
        """What makes logs usable again that want of descriptors has left in doubt."""
        return self._mending.works(now_ms=now_ms)

    def checkpoint(self, directory: LogDirectory) -> DiskWork:
        """Write down recovery points, start offsets and high watermarks, where they changed."""
        return self._checkpoints.work(directory)

    def checkpoints(self) -> list[DiskWork]:
        return [self.checkpoint(directory) for directory in self.directories.online]

    def close(
        self,
        *,
        now_ms: int,
        run_all: RunAll = one_after_the_other,
        broker_epoch: int = NO_BROKER_EPOCH,
        keeps_locks: bool = False,
    ) -> None:
        """All is synced, and the next start finds nothing to recover.

        ``run_all`` gets what sleeps; its tasks cannot be pickled.  Whoever else works in the
        directories keeps their locks, and releases them when it has ended too.
        """
        for work in self.deletions(now_ms=now_ms):
            with suppress(LogDirectoryOffline, OutOfDescriptors):
                carry_out(work)
        close_logs(self.logs, run_all, now_ms=now_ms)
        for directory in self.directories.online:
            close_directory(
                directory,
                self._checkpoints,
                is_clean=not self._has_unfinished_logs(directory),
                broker_epoch=broker_epoch,
            )
        if not keeps_locks:
            self.directories.release()

    def _has_unfinished_logs(self, directory: LogDirectory) -> bool:
        """Whether work on the names or lengths of files was broken off."""
        refused = [*self._refused_on_their_way, *self._refused_to_delete]
        return (
            any(each.is_being_cut or each.is_in_doubt for each in self.logs.in_directory(directory))
            or any(each.directory is directory for each in refused)
            or any(move.future.directory is directory for move in self._to_name)
            or self._doomed.are_in(directory)
        )

    def abandon(self) -> None:
        """Let go of everything as it is; the next start has to recover it."""
        for hosted in self.logs:
            hosted.log.abandon()
        self.directories.release()

    def _check_all_online(self, partition: TopicPartition) -> None:
        if offline := self.directories.offline:
            raise KafkaStorageError(f"{partition} may be in {offline[0].path}, which is offline")

    def _check_nobody_else_works_on(self, hosted: HostedLog, offset: int = 0) -> None:
        """Compaction and retention leave the active segment alone."""
        log = hosted.log
        is_sealed = len(log.segments) == 0 or offset < log.segments.active.base_offset
        assert not (is_sealed and self.cleaner.is_at_work_on(log)), hosted

    def _directory_failed(self, directory: LogDirectory) -> None:
        for hosted in self.logs.in_directory(directory):
            hosted.log.abandon()
            if hosted.is_future:
                self.logs.remove(hosted)
        self.cleaner.close(directory.path)


def _rename(path: Path, target: Path) -> None:
    """Unless that was done before, and broken off."""
    if path.exists():
        files.rename(path, target)
    files.sync_directory(target.parent)
