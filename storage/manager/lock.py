"""The ``.lock`` file of a log directory: one process at a time.

Kafka: FileLock, and LogManager.lockLogDirs.

The lock belongs to the open file (an "open file description lock", where the system has them), not
to the process.  So a second lock in the same process fails too, and closing another descriptor of
the file does not release it.  It conflicts with Apache Kafka's lock, which belongs to the process:
the two brokers never share a directory.

The kernel releases the lock when the process ends for any reason.  The file stays; its existence
means nothing.

Owner: the event loop.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from struct import Struct

from odradek.storage import files

FILE_NAME = ".lock"

#: struct flock.  Only the type is not zero: lock the whole file, with process id 0.
_FLOCK = Struct("hhqqi")


class DirectoryLocked(Exception):
    """Another process, or another part of this one, uses the log directory."""


class DirectoryLock:
    """The lock of a directory, held until ``release``."""

    def __init__(self, directory: Path) -> None:
        path = directory / FILE_NAME
        self._descriptor = files.open_for_writing(path)
        try:
            _lock(self._descriptor)
        except BlockingIOError as error:
            self.release()
            raise DirectoryLocked(f"{directory} is in use: another broker holds {path}") from error
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            files.system.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int) -> None:
    if os.uname().sysname == "Linux":
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    else:
        # struct flock has another layout there.  This lock does not conflict with Kafka's.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
