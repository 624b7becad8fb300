"""Making a partition's log: in the log directory that has the fewest, or in the next if that fails.

A log that could not be made leaves nothing behind, unless its directory has failed.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.log_loader import Findings, open_log
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.doomed_logs import DoomedLogs
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.open_segments import OutOfDescriptors, retriable
from odradek.storage.paths import SEGMENT_CONTENTS, Purpose, file_path, new_directory_name
from odradek.storage.topic_table import TopicTable


class LogMaking:
    """Makes logs and registers them."""

    def __init__(self, logs: LogRegistry, doomed: DoomedLogs, topics: TopicTable) -> None:
        self._logs = logs
        self._doomed = doomed
        self._topics = topics

    def make(
        self,
        partition: TopicPartition,
        purpose: Purpose,
        places: Sequence[LogDirectory],
        topic_id: Uuid | None,
        now_ms: int,
    ) -> HostedLog:
        failures = []
        for directory in self._logs.emptiest_first(places):
            try:
                with directory.guard(f"creating {partition}"):
                    path = self._new_path(directory, partition, purpose)
                    hosted = self._made(path, directory, partition, topic_id, now_ms)
                    hosted.is_future = purpose is Purpose.FUTURE
                    self._logs.add(hosted)
                    return hosted
            except KafkaStorageError as failure:
                failures.append(str(failure))
        raise KafkaStorageError(f"{partition} could not be created: {'; '.join(failures)}")

    def _new_path(
        self, directory: LogDirectory, partition: TopicPartition, purpose: Purpose
    ) -> Path:
        if self._doomed.has(directory, partition):
            raise KafkaStorageError(f"{partition} in {directory.path} is not deleted yet")
        if self._logs.has(directory, partition):
            raise KafkaStorageError(f"a copy of {partition} is on its way to {directory.path}")
        path = directory.path / str(new_directory_name(partition, purpose))
        if path.exists():
            raise KafkaStorageError(f"{path} is in the way")
        return path

    def _made(
        self,
        path: Path,
        directory: LogDirectory,
        partition: TopicPartition,
        topic_id: Uuid | None,
        now_ms: int,
    ) -> HostedLog:
        files.system.mkdir(path)
        try:
            with retriable():
                if topic_id is not None:
                    partition_metadata.write(path, topic_id, is_synced=False)
                log = open_log(self._topics.place(path, partition, now_ms=now_ms), Findings())
        except OutOfDescriptors:
            _unmake(path)
            raise
        return HostedLog(log, directory, topic_id=topic_id, is_name_synced=False)


def _unmake(path: Path) -> None:
    """Remove what a new log consists of, by name: a look into the directory takes a descriptor."""
    files.remove(path / partition_metadata.FILE_NAME)
    for content in SEGMENT_CONTENTS:
        files.remove(file_path(path, 0, content))
    files.system.rmdir(path)
