"""A process that kills itself at one system call, to be put in the place of ``files.system``.

    points = FaultPoints()                       counts and names the calls: points.names
    points = FaultPoints(Fault(7, "before"))     SIGKILL before the seventh call
                         Fault(7, "after")       ... after it
                         Fault(7, "torn")        ... in the middle of it, if it is a write
                         Fault("fsync .log", "before", nth=3)    the third call of that name

Counted are the calls that change files or sync them.  A call's name is what it does and to what
kind of file: ``pwritev .log``, ``rename .log.swap``, ``fsync leader-epoch-checkpoint.tmp``.
Nothing is really synced, since a kill does not forget what a power cut does.

Owner: the process that is to be killed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.storage import files
from tests.support.faulty_disk import CHANGING, changes_a_file

_OFFSET = re.compile(r"^[0-9]{20}")
_PARTITION = re.compile(r"-[0-9]+(\.[0-9a-f]{32}-delete)?$")


class Fault(NamedTuple):
    """At which call, counted from 1 or named, and when."""

    at: int | str
    moment: str
    nth: int = 1


class Unsynced(files.SystemCalls):
    """A system on which nothing is synced, which only takes time."""

    @staticmethod
    def fsync(descriptor: int) -> None:
        return

    @staticmethod
    def sync_directory(path: files.FilePath) -> None:
        return


class FaultPoints:
    """The calls of ``files.SystemCalls``; nobody survives one of them."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.names: list[str] = []
        self._fault = fault
        self._system = Unsynced()
        self._kinds: dict[int, str] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._system, name)
        if name not in CHANGING:
            return call

        def counted(target: Any, *arguments: Any, **named: Any) -> Any:
            if name == "open" and not changes_a_file(target, *arguments):
                return self._opened(target, call(target, *arguments))
            kind = self._kinds.get(target, "") if isinstance(target, int) else kind_of(target)
            moment = self._deadly_moment(f"{name} {kind}")
            if moment == "before":
                die()
            if name == "pwritev" and moment == "torn":
                call(
                    target,
                    [b"".join(arguments[0])[: sum(map(len, arguments[0])) // 2]],
                    arguments[1],
                )
                die()
            try:
                answer = call(target, *arguments, **named)
            finally:
                if moment == "after":
                    die()
            return self._opened(target, answer) if name == "open" else answer

        return counted

    def _opened(self, path: files.FilePath, descriptor: int) -> int:
        self._kinds[descriptor] = kind_of(path)
        return descriptor

    def _deadly_moment(self, name: str) -> str | None:
        """Of the call that begins; None if it is not the one."""
        self.names.append(name)
        if self._fault is None:
            return None
        at, moment, nth = self._fault
        is_it = len(self.names) == at or (name == at and self.names.count(name) == nth)
        return moment if is_it else None


def kind_of(path: files.FilePath) -> str:
    """The name without the offset or the partition that it is of."""
    return _PARTITION.sub("", _OFFSET.sub("", os.path.basename(path)))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
