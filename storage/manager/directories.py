"""All log directories of a broker: opened together, lost one by one.

What does not work is offline from the beginning, and the rest goes on; what belongs to somebody
else ends the start: DirectoryLocked if it is in use, DirectoryRefused if it is another broker's or
another cluster's, or named twice.

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
    """In the order in which they are named."""

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
        """As a client names it; LogDirNotFound if there is none of that name."""
        for directory in self.all:
            if str(directory.path) == path:
                return directory
        raise LogDirNotFound(f"{path} is not a log directory of this broker")

    def open(self) -> None:
        """Take them for this process."""
        self._check_distinct()
        with ExitStack() as undo:
            undo.callback(self.release)
            for directory in self.all:
                with suppress(LogDirectoryOffline), directory.guard("opening it"):
                    directory.open()
            undo.pop_all()

    def verify_meta_properties(self, *, broker_id: int | None, cluster_id: str | None) -> None:
        """DirectoryRefused if one is another's; None demands no more than that they agree."""
        properties = {
            directory.path: directory.meta_properties
            for directory in self.online
            if directory.meta_properties is not None
        }
        meta_properties.verify(properties, broker_id=broker_id, cluster_id=cluster_id)

    def write_meta_properties(self, *, broker_id: int, cluster_id: str) -> None:
        """Write down whose they are, where it is not written yet."""
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
