"""One log directory: whose it is, whether it works, and what becomes of its logs if it does not.

This is the one place where an OSError becomes an error of the protocol.  The first one takes the
whole directory offline, as in Kafka: a disk that has failed once is not to be believed again, and
a failed sync must not be retried.  Offline is for good: whatever is tried from then on is refused
with KAFKA_STORAGE_ERROR and touches no file, until a restart.  Other directories go on.

That the process, or the system, has run out of descriptors says nothing about a disk.  What was to
be done is refused with KAFKA_STORAGE_ERROR too (OutOfDescriptors) and can be tried again, and the
directory stays online.  A log that was being changed then is in doubt: see mending.py.

    open            make the directory, lock it, read whose it is
    read_marker     was the last shutdown clean?
    remove_marker   before the first log is opened: from then on it is not true
    release         give the lock back

What was under way when the directory failed may still be writing, on a disk thread or in a worker
(``in_use``).  Only when that is over is the lock given back, so that the disk can be unmounted, or
used by another broker.

Invariant: in an offline directory nothing is begun any more.
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
    """A log directory has failed: what is in it is out of reach until a restart."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is offline: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DirectorySpace:
    """Of the file system that the directory is in; ``usable`` is what is left for this process."""

    total_bytes: int
    usable_bytes: int


OnFailure = Callable[["LogDirectory"], None]


class LogDirectory:
    """A directory of partitions' directories, with its checkpoints."""

    def __init__(self, path: Path, *, on_failure: OnFailure) -> None:
        """``on_failure`` is called once, when the directory goes offline, before anybody else."""
        self.path = Path(os.path.abspath(path))
        self.meta_properties: MetaProperties | None = None
        self.error: LogDirectoryOffline | None = None
        self.had_clean_shutdown = False
        #: Whether work that must be the only one of its kind is under way: see disk_work.py.
        self.has_exclusive_task = False
        self._on_failure = on_failure
        self._lock: DirectoryLock | None = None
        self._use_count = 0

    @property
    def is_online(self) -> bool:
        return self.error is None

    def guard(self, operation: str) -> DirectoryGuard:
        """``with directory.guard("opening"):`` an OSError inside takes the directory offline."""
        return DirectoryGuard(self, operation)

    def mark_offline(self, error: OSError, operation: str) -> LogDirectoryOffline:
        """Go offline, unless it is already; what to raise."""
        if self.error is None:
            self.error = LogDirectoryOffline(self.path, f"{operation} failed: {error}")
            self._release_if_unused()
            self._on_failure(self)
        return self.offline_error()

    def begin_use(self) -> None:
        """Something may be writing from now on until ``end_use``."""
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
        """A new exception every time, since each collects the path it was raised on."""
        assert self.error is not None, self
        return LogDirectoryOffline(self.path, self.error.reason)

    def open(self) -> None:
        """DirectoryLocked or DirectoryRefused if it is not ours; OSError if it does not work."""
        _create_with_parents(self.path)
        self._lock = DirectoryLock(self.path)
        self.meta_properties = meta_properties.read(self.path)

    def write_meta_properties(self, *, broker_id: int, cluster_id: str) -> None:
        """Write down whose the directory is, where it does not say so yet."""
        meta = self.meta_properties or MetaProperties()
        updated = replace(meta, broker_id=broker_id, cluster_id=cluster_id)
        if updated != self.meta_properties:
            meta_properties.write(self.path, updated)
            self.meta_properties = updated

    def read_clean_shutdown_marker(self) -> bool:
        """Whether everything was closed cleanly."""
        self.had_clean_shutdown = clean_shutdown.read(self.path) is not None
        return self.had_clean_shutdown

    def remove_clean_shutdown_marker(self) -> None:
        """It is not true any more; gone for good when this returns."""
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
    """Refuses to begin if the directory is offline, and takes it offline if the disk fails.

    It is for opening, making and closing whole logs: one that could not be is not in use.
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
    """With the directories above it, each durable before the next."""
    missing = [path, *path.parents]
    missing = missing[: next(index for index, parent in enumerate(missing) if parent.exists())]
    for parent in reversed(missing):
        files.create_directory(parent)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a directory")
