"""The logs of the broker, by partition and by log directory.

A partition has one current log and, while it is being moved, a future log in another directory.
Logs of failed directories stay registered, and access to them fails.  Only future logs in failed
directories are removed, because the current log is elsewhere and may be deleted.

Invariant: a partition has at most one log in a directory.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.protocol.types import TopicPartition
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog


class LogRegistry:
    """Logs by partition and by directory."""

    def __init__(self) -> None:
        self.current: dict[TopicPartition, HostedLog] = {}
        self.future: dict[TopicPartition, HostedLog] = {}
        self._by_directory: dict[LogDirectory, dict[TopicPartition, HostedLog]] = {}

    def __iter__(self) -> Iterator[HostedLog]:
        yield from self.current.values()
        yield from self.future.values()

    @property
    def usable(self) -> list[HostedLog]:
        return [hosted_log for hosted_log in self if hosted_log.is_usable]

    def has(self, directory: LogDirectory, partition: TopicPartition) -> bool:
        return partition in self._by_directory.get(directory, ())

    def in_directory(self, directory: LogDirectory) -> list[HostedLog]:
        """Return the current and future logs of a directory."""
        return list(self._by_directory.get(directory, {}).values())

    def add(self, hosted_log: HostedLog) -> None:
        partition = hosted_log.partition
        logs = self.future if hosted_log.is_future else self.current
        directory_logs = self._by_directory.setdefault(hosted_log.directory, {})
        assert partition not in logs, hosted_log
        assert partition not in directory_logs, hosted_log
        logs[partition] = directory_logs[partition] = hosted_log

    def remove(self, hosted_log: HostedLog) -> None:
        partition = hosted_log.partition
        del (self.future if hosted_log.is_future else self.current)[partition]
        del self._by_directory[hosted_log.directory][partition]

    def sort_by_log_count(self, directories: Iterable[LogDirectory]) -> list[LogDirectory]:
        """Sort by the number of logs; the order is stable."""
        return sorted(directories, key=lambda directory: len(self._by_directory.get(directory, ())))
