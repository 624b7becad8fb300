"""The file ``.lock`` of a log directory: one process at a time.

What is locked is the open file (an "open file description lock", where the system has them), not
the process: a second opening in the same process is refused too, and closing another descriptor of
the file frees nothing.  Apache Kafka's lock, which is the process's, collides with it, so that the
two never share a directory either.

The kernel frees the lock when the process ends, whatever it ends of.  The file stays; that it is
there says nothing.

Owner: the event loop.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from struct import Struct

from odradek.storage import files

FILE_NAME = ".lock"

#: struct flock, of which only the type is not zero: the whole file, and nobody's process id.
_FLOCK = Struct("hhqqi")


class DirectoryLocked(Exception):
    """Another process, or another part of this one, uses the log directory."""


class DirectoryLock:
    """Held from when it is made until ``release``."""

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
        # The layout of struct flock is another one there; what is lost is Kafka's own lock.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
