"""All log directories of a broker.

A directory that fails on opening is offline from the start, and the others are used.  These errors
abort the startup instead: DirectoryLocked if a directory is in use by another process, and
InvalidLogDirectory if it belongs to another broker or cluster, or is configured twice.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from odradek.protocol.errors import LogDirNotFound
from odradek.storage import meta_properties
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.observer import LogObserver
from odradek.storage.meta_properties import InvalidLogDirectory


class LogDirectories:
    """The log directories, in the order of ``log.dirs``."""

    def __init__(self, paths: Sequence[Path], observer: LogObserver) -> None:
        self.observer = observer
        #: Called before the observer when a directory fails.
        self.on_failure: Callable[[LogDirectory], None] = lambda directory: None
        self.all = tuple(LogDirectory(path, on_failure=self._on_log_dir_failure) for path in paths)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.is_online]

    @property
    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self.all if not directory.is_online]

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self.all)

    def get(self, path: str) -> LogDirectory:
        """Return the directory that a client names by its path, or raise LogDirNotFound."""
        for directory in self.all:
            if str(directory.path) == path:
                return directory
        raise LogDirNotFound(f"{path} is not a log directory of this broker")

    def open(self) -> None:
        """Lock all directories for this process and read their ``meta.properties``."""
        self._check_distinct()
        with ExitStack() as undo:
            undo.callback(self.release)
            for directory in self.all:
                with suppress(LogDirectoryOffline), directory.guard("opening the directory"):
                    directory.open()
            undo.pop_all()

    def verify_meta_properties(self, *, broker_id: int | None, cluster_id: str | None) -> None:
        """Raise InvalidLogDirectory if a directory belongs to another broker or cluster.

        With None, the directories must only agree with each other.
        """
        properties = {
            directory.path: directory.meta_properties
            for directory in self.online
            if directory.meta_properties is not None
        }
        meta_properties.verify(properties, broker_id=broker_id, cluster_id=cluster_id)

    def write_meta_properties(self, *, broker_id: int, cluster_id: str) -> None:
        """Write the broker id and the cluster id to ``meta.properties`` where they are missing."""
        self.verify_meta_properties(broker_id=broker_id, cluster_id=cluster_id)
        for directory in self.online:
            with suppress(LogDirectoryOffline), directory.guard("writing meta.properties"):
                directory.write_meta_properties(broker_id=broker_id, cluster_id=cluster_id)

    def release(self) -> None:
        for directory in self.all:
            directory.release()

    def _on_log_dir_failure(self, directory: LogDirectory) -> None:
        self.on_failure(directory)
        self.observer.handle_log_dir_failure(directory, is_last=not self.online)

    def _check_distinct(self) -> None:
        seen: dict[Path, LogDirectory] = {}
        for directory in self.all:
            first = seen.setdefault(directory.path.resolve(), directory)
            if first is not directory:
                raise InvalidLogDirectory(
                    f"{directory.path} and {first.path} are the same directory"
                )
