"""The CPU time of this process and all its descendants, including those that have exited.

Spark's JVM starts Python processes, which start further processes, some of them short-lived.  Linux
adds the CPU time of an exited process to the parent that waits for it.  The time of a process whose
parent exited first would be lost, so this process becomes the subreaper of such orphans.  The time
is also lost when a parent ignores SIGCHLD: unreaped_children/ prevents that in PySpark's daemons.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def become_subreaper() -> None:
    """Make this process the parent of every descendant that loses its own parent."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def cpu_seconds() -> float:
    """Return the CPU time, in steps of 10 ms.

    Exited orphans are not waited for, because their time counts only while they are zombies.
    """
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except (FileNotFoundError, ProcessLookupError):  # the process has just exited
            continue
        # The name in parentheses may contain any character.  The fields after it are state,
        # parent, ...; the 12th to 15th are the times of the process and of its waited-for children.
        fields = stat.rpartition(")")[2].split()
        pid = int(path.parent.name)
        children[int(fields[1])].append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    total, pending = 0, [os.getpid()]
    while pending:
        pid = pending.pop()
        total += ticks.get(pid, 0)
        pending += children[pid]
    return total / _TICKS_PER_SECOND
