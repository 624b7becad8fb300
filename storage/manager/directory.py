"""One log directory: its lock, its ``meta.properties``, and whether it is online or offline.

Kafka: LogDirFailureChannel, and the LogManager methods for a single directory.

This is the only place where an OSError becomes an error of the protocol.  The first OSError takes
the whole directory offline, as in Kafka: a disk that has failed once cannot be trusted, and a
failed fsync must not be retried.  The directory stays offline until a restart: every operation in
it fails with KAFKA_STORAGE_ERROR and touches no file.  Other directories are not affected.

If the process or the system is out of file descriptors, this says nothing about the disk.  Then the
operation also fails with KAFKA_STORAGE_ERROR (TooManyOpenFiles), but it can be retried, and the
directory stays online.  A log that was being changed needs recovery: see log_repair.py.

    open                           create the directory, lock it, read ``meta.properties``
    read_clean_shutdown_marker     read whether the last shutdown was clean
    remove_clean_shutdown_marker   before the first log is opened, because it is no longer true
    release                        release the lock

Operations that were running when the directory failed may still be writing, on a disk thread or in
a worker (``in_use``).  The lock is released only after they have ended.  Then the disk can be
unmounted or used by another broker.

Invariant: no operation is started in an offline directory.
Owner: the event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import clean_shutdown, files, meta_properties
from odradek.storage.manager.lock import DirectoryLock
from odradek.storage.meta_properties import MetaProperties
from odradek.storage.open_segments import TooManyOpenFiles, is_too_many_open_files


class LogDirectoryOffline(KafkaStorageError):
    """A log directory has failed.  Its logs are not accessible until a restart."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is offline: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DirectorySpace:
    """Space of the file system; ``usable_bytes`` is what is available to this process."""

    total_bytes: int
    usable_bytes: int


OnFailure = Callable[["LogDirectory"], None]


class LogDirectory:
    """A directory with one subdirectory per log, and with checkpoint files."""

    def __init__(self, path: Path, *, on_failure: OnFailure) -> None:
        """``on_failure`` is called once, when the directory goes offline, before the error is
        raised.
        """
        self.path = Path(os.path.abspath(path))
        self.meta_properties: MetaProperties | None = None
        self.error: LogDirectoryOffline | None = None
        self.had_clean_shutdown = False
        #: Whether an exclusive task is running: see disk_task.py.
        self.has_exclusive_task = False
        self._on_failure = on_failure
        self._lock: DirectoryLock | None = None
        self._use_count = 0

    @property
    def is_online(self) -> bool:
        return self.error is None

    def guard(self, operation: str) -> DirectoryGuard:
        """Use as ``with directory.guard("opening"):``; an OSError takes the directory offline."""
        return DirectoryGuard(self, operation)

    def mark_offline(self, error: OSError, operation: str) -> LogDirectoryOffline:
        """Take the directory offline, unless it is already.  Return the error to raise."""
        if self.error is None:
            self.error = LogDirectoryOffline(self.path, f"{operation} failed: {error}")
            self._release_if_unused()
            self._on_failure(self)
        return self.offline_error()

    def begin_use(self) -> None:
        """Keep the lock until ``end_use``, because something may be writing."""
        self._use_count += 1

    def end_use(self) -> None:
        self._use_count -= 1
        self._release_if_unused()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.begin_use()
        try:
            yield
        finally:
            self.end_use()

    def _release_if_unused(self) -> None:
        if self.error is not None and not self._use_count:
            self.release()

    def offline_error(self) -> LogDirectoryOffline:
        """Return a new exception each time, because an exception collects its traceback."""
        assert self.error is not None, self
        return LogDirectoryOffline(self.path, self.error.reason)

    def open(self) -> None:
        """Raise DirectoryLocked or InvalidLogDirectory if another broker has the directory."""
        _create_with_parents(self.path)
        self._lock = DirectoryLock(self.path)
        self.meta_properties = meta_properties.read(self.path)

    def write_meta_properties(self, *, broker_id: int, cluster_id: str) -> None:
        """Add the broker id and the cluster id where they are missing."""
        meta = self.meta_properties or MetaProperties()
        updated = replace(meta, broker_id=broker_id, cluster_id=cluster_id)
        if updated != self.meta_properties:
            meta_properties.write(self.path, updated)
            self.meta_properties = updated

    def read_clean_shutdown_marker(self) -> bool:
        """Return whether the last shutdown was clean."""
        self.had_clean_shutdown = clean_shutdown.read(self.path) is not None
        return self.had_clean_shutdown

    def remove_clean_shutdown_marker(self) -> None:
        """Remove the marker, which is no longer true.  The removal is durable on return."""
        if self.had_clean_shutdown:
            clean_shutdown.remove(self.path)

    def space(self) -> DirectorySpace:
        stats = os.statvfs(self.path)
        return DirectorySpace(
            total_bytes=stats.f_blocks * stats.f_frsize,
            usable_bytes=stats.f_bavail * stats.f_frsize,
        )

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{'' if self.is_online else ', offline'})"


class DirectoryGuard:
    """Fails if the directory is offline, and takes it offline on an OSError.

    Use it to open, create and close whole logs.  A log that could not be opened is not in use.
    For operations on an open log use HostedLog.
    """

    __slots__ = ("_directory", "_operation")

    def __init__(self, directory: LogDirectory, operation: str) -> None:
        self._directory = directory
        self._operation = operation

    def __enter__(self) -> None:
        if self._directory.error is not None:
            raise self._directory.offline_error()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            if is_too_many_open_files(error):
                raise TooManyOpenFiles(f"{self._operation} failed: {error}") from error
            raise self._directory.mark_offline(error, self._operation) from error


def _create_with_parents(path: Path) -> None:
    """Create the directory and its parents, each durable before the next."""
    missing = [path, *path.parents]
    missing = missing[: next(index for index, parent in enumerate(missing) if parent.exists())]
    for parent in reversed(missing):
        files.create_directory(parent)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a directory")
