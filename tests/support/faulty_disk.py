"""A disk that fails at one call, to be put in the place of ``files.system``.

    with FaultyDisk() as disk:                        nothing fails: disk.changes tells how many
        scenario()
    for n in range(1, disk.changes + 1):
        with FaultyDisk(fail_at=n, error=errno.ENOSPC):
            scenario()                                its n-th change fails

Counted are the calls that change files or sync them; ``counting`` names others, such as ``pread``
alone or ``fsync`` alone.  The failing call does nothing, except that with ``short_write`` a failing
write first comes back short, as on a disk that is filling up, and its continuation fails.  Later
calls work again, unless the fault ``persists``: then every counted one fails (but ``close`` never).

``over`` is the system whose calls are made in the end: a PowerCut to let the power go afterwards.

Owner: the test's thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Self

from odradek.storage import files

CHANGING = frozenset(
    {
        *("pwritev", "ftruncate", "fallocate", "fsync", "rename", "unlink", "mkdir", "rmdir"),
        *("sync_directory", "utime"),
        "open",  # if it makes or cuts a file
    }
)
SYNCS = frozenset({"fsync", "sync_directory"})
NEVER_FAILING = frozenset({"close"})


class FaultyDisk:
    """The calls of ``files.SystemCalls``, one of which fails."""

    def __init__(
        self,
        *,
        fail_at: int | None = None,
        error: int = errno.EIO,
        short_write: bool = False,
        persists: bool = False,
        counting: Collection[str] = CHANGING,
        over: files.SystemCalls | None = None,
    ) -> None:
        assert not NEVER_FAILING & set(counting)
        self.changes = 0
        self.failed_calls: list[str] = []
        self._fail_at = fail_at
        self._error = error
        self._short_write = short_write
        self._persists = persists
        self._counting = counting
        self._over = over or files.system
        self._replaced: files.SystemCalls | None = None
        self._next_write_fails = False

    def __repr__(self) -> str:
        name = errno.errorcode[self._error]
        return f"FaultyDisk(fail_at={self._fail_at}, error={name}, failed={self.failed_calls})"

    def __enter__(self) -> Self:
        assert self._replaced is None, "failing already"
        self._replaced, files.system = files.system, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        files.system, self._replaced = self._replaced, None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._over, name)
        if name not in self._counting:
            return call

        def counted(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not changes_a_file(*arguments, **named):
                return call(*arguments, **named)
            if not self._is_to_fail():
                return call(*arguments, **named)
            if name == "pwritev" and self._short_write and not self._next_write_fails:
                return self._write_a_part(*arguments)
            self._next_write_fails = False
            self.failed_calls.append(name)
            raise OSError(self._error, os.strerror(self._error))

        return counted

    def _is_to_fail(self) -> bool:
        self.changes += 1
        if self._fail_at is None:
            return False
        is_due = self.changes == self._fail_at or self._next_write_fails
        return is_due or (self._persists and self.changes > self._fail_at)

    def _write_a_part(self, descriptor: int, buffers: list[files.Buffer], position: int) -> int:
        """Half of it; nothing of a single byte, which is no short write but a failing one."""
        whole = b"".join(buffers)
        self._next_write_fails = True
        if len(whole) < 2:
            return int(self.pwritev(descriptor, buffers, position))
        return int(self._over.pwritev(descriptor, [whole[: len(whole) // 2]], position))


def changes_a_file(path: files.FilePath, flags: int, mode: int = 0o777) -> bool:
    return bool(flags & os.O_TRUNC) or (bool(flags & os.O_CREAT) and not os.path.exists(path))
