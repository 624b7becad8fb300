"""Creates the log of a partition, in the directory with the fewest logs, or in the next on failure.

A log that could not be created leaves no files behind, unless its directory has failed.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.log_loader import LogLoadReport, open_log
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.pending_deletes import PendingDeletes
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.open_segments import TooManyOpenFiles, retriable
from odradek.storage.paths import SEGMENT_FILE_TYPES, DirectoryType, file_path, new_directory_name
from odradek.storage.topic_settings_registry import TopicSettingsRegistry


class LogCreator:
    """Creates logs and registers them."""

    def __init__(
        self,
        logs: LogRegistry,
        pending_deletes: PendingDeletes,
        topic_settings: TopicSettingsRegistry,
    ) -> None:
        self._logs = logs
        self._pending_deletes = pending_deletes
        self._topic_settings = topic_settings

    def create(
        self,
        partition: TopicPartition,
        directory_type: DirectoryType,
        directories: Sequence[LogDirectory],
        topic_id: Uuid | None,
        now_ms: int,
    ) -> HostedLog:
        errors = []
        for directory in self._logs.sort_by_log_count(directories):
            try:
                with directory.guard(f"creating {partition}"):
                    path = self._new_path(directory, partition, directory_type)
                    hosted_log = self._create_log(path, directory, partition, topic_id, now_ms)
                    hosted_log.is_future = directory_type is DirectoryType.FUTURE
                    self._logs.add(hosted_log)
                    return hosted_log
            except KafkaStorageError as error:
                errors.append(str(error))
        raise KafkaStorageError(f"failed to create the log of {partition}: {'; '.join(errors)}")

    def _new_path(
        self, directory: LogDirectory, partition: TopicPartition, directory_type: DirectoryType
    ) -> Path:
        if self._pending_deletes.contains(directory, partition):
            raise KafkaStorageError(f"{partition} in {directory.path} is not deleted yet")
        if self._logs.has(directory, partition):
            raise KafkaStorageError(
                f"a future log of {partition} already exists in {directory.path}"
            )
        path = directory.path / str(new_directory_name(partition, directory_type))
        if path.exists():
            raise KafkaStorageError(f"{path} already exists")
        return path

    def _create_log(
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
                log = open_log(
                    self._topic_settings.load_params(path, partition, now_ms=now_ms),
                    LogLoadReport(),
                )
        except TooManyOpenFiles:
            _remove_created_files(path)
            raise
        return HostedLog(log, directory, topic_id=topic_id, is_directory_synced=False)


def _remove_created_files(path: Path) -> None:
    """Remove the files of a new log by name: listing the directory would take a descriptor."""
    files.remove(path / partition_metadata.FILE_NAME)
    for file_type in SEGMENT_FILE_TYPES:
        files.remove(file_path(path, 0, file_type))
    files.system.rmdir(path)
