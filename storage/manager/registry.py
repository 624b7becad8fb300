"""Which logs are there, and in which log directories?

A partition has one current log, and while it is being moved a future one, in another directory.
Logs of directories that have failed stay: they answer that they are out of reach.  Only copies on
their way there are forgotten, since the log itself is elsewhere, and may be deleted.

Invariant: in one directory, a partition has one log at most.
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
        self._in: dict[LogDirectory, dict[TopicPartition, HostedLog]] = {}

    def __iter__(self) -> Iterator[HostedLog]:
        yield from self.current.values()
        yield from self.future.values()

    @property
    def usable(self) -> list[HostedLog]:
        return [hosted for hosted in self if hosted.is_usable]

    def has(self, directory: LogDirectory, partition: TopicPartition) -> bool:
        return partition in self._in.get(directory, ())

    def in_directory(self, directory: LogDirectory) -> list[HostedLog]:
        """Current and future ones."""
        return list(self._in.get(directory, {}).values())

    def add(self, hosted: HostedLog) -> None:
        partition = hosted.partition
        logs = self.future if hosted.is_future else self.current
        inside = self._in.setdefault(hosted.directory, {})
        assert partition not in logs, hosted
        assert partition not in inside, hosted
        logs[partition] = inside[partition] = hosted

    def remove(self, hosted: HostedLog) -> None:
        partition = hosted.partition
        del (self.future if hosted.is_future else self.current)[partition]
        del self._in[hosted.directory][partition]

    def emptiest_first(self, directories: Iterable[LogDirectory]) -> list[LogDirectory]:
        """By the number of their logs; of several with as many, in the order given."""
        return sorted(directories, key=lambda directory: len(self._in.get(directory, ())))
