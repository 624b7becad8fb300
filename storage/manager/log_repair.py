"""Logs in doubt: a change was broken off for want of descriptors, and files and memory disagree.

It is as if the process had been killed in the middle of that change, and the same mends it: the log
is recovered from its files and opened again, while all others go on.  What was acknowledged is
there; of the change, any part.  Before that, what was written is synced through the files that it
was written with, which alone are sure to tell of a write that failed.

Until then the log is refused with OutOfDescriptors, which clients retry.  It is left alone while a
compaction, a flush or another work on it is still under way.

Owner: the event loop; what it hands out may run on a disk thread.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.storage import files
from odradek.storage.cleaner.schedule import CleanerSchedule
from odradek.storage.log import Log
from odradek.storage.log_loader import Findings, LogPlace, open_log, recover
from odradek.storage.manager.checkpoint_work import CheckpointWork
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.topic_table import TopicTable


class LogMending:
    """Opens logs again."""

    def __init__(
        self,
        logs: LogRegistry,
        topics: TopicTable,
        cleaner: CleanerSchedule,
        checkpoints: CheckpointWork,
        notice: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._topics = topics
        self._cleaner = cleaner
        self._checkpoints = checkpoints
        self._notice = notice
        self._under_way: set[HostedLog] = set()

    def works(self, *, now_ms: int) -> list[DiskWork]:
        """For each log that can be mended now; those of one directory one after the other."""
        ready = [hosted for hosted in self._logs if self._can_be_mended(hosted)]
        self._under_way.update(ready)
        return [self._work(hosted, now_ms) for hosted in ready]

    def _can_be_mended(self, hosted: HostedLog) -> bool:
        is_left_alone = not (
            hosted.is_flushing
            or hosted.is_being_cut
            or hosted in self._under_way
            or self._cleaner.is_at_work_on(hosted.log)
        )
        return hosted.is_in_doubt and hosted.directory.is_online and is_left_alone

    def _work(self, hosted: HostedLog, now_ms: int) -> DiskWork:
        before = hosted.log
        place = self._topics.place(
            before.directory,
            before.partition,
            recovery_point=before.recovery_point,
            start_offset=before.start_offset,
            now_ms=now_ms,
        )
        findings = Findings()
        opened: list[Log] = []

        def run() -> None:
            # One that has been deleted meanwhile may have another name already.
            if not hosted.is_deleted:
                _let_go(before)
                opened.append(_opened_again(place, findings))

        def ended(is_done: bool) -> None:
            self._under_way.discard(hosted)
            if is_done and not hosted.is_deleted:
                self._take_over(hosted, opened[-1])
                for note in findings.notes:
                    self._notice(note)

        return self._checkpoints.work(
            hosted.directory, what=f"opening {before.partition} again", first=run, ended=ended
        )

    def _take_over(self, hosted: HostedLog, log: Log) -> None:
        before = hosted.log
        seen = max(before.high_watermark, log.start_offset)
        log.advance_high_watermark(min(seen, log.end_offset))
        if before.epochs.latest_epoch > log.epochs.latest_epoch:
            # Noted by a leader who has not appended yet.
            log.epochs.assign(before.epochs.latest_epoch, start_offset=log.end_offset)
        log.last_flush_ms = before.last_flush_ms
        log.configure(self._topics[log.partition.topic])
        hosted.log = log
        hosted.is_mended = True
        hosted.is_in_doubt = hosted.is_shedding = False
        if not hosted.is_future:
            self._cleaner.truncated(log, log.end_offset)


def _let_go(log: Log) -> None:
    for segment in log.segments:
        if segment.is_open:
            files.sync(segment.file.descriptor)
    log.abandon()


def _opened_again(place: LogPlace, findings: Findings) -> Log:
    try:
        findings.add(recover(place))
        return open_log(place, findings)
    except OutOfDescriptors:
        raise
    except (KafkaError, DecodeError) as damage:
        raise OSError(errno.EIO, f"{place.directory} cannot be opened again: {damage}") from damage
