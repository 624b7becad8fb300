"""The CPU time of this process and all that it has started, those that have ended included.

Spark's JVM starts processes of Python that start others, some of which live for moments.  Linux
adds the time of a process that has ended to the parent that waits for it; one whose parent ended
first would be lost, so this process takes in such orphans.  A parent that has asked not to be told
of children that end loses their time, too: kept_children/ keeps PySpark's daemons from that.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def become_subreaper() -> None:
    """From now on a process below this one whose parent has ended becomes this one's child."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def cpu_seconds() -> float:
    """In steps of 10 ms.  Orphans that have ended are not waited for, so that they still count."""
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        # After the name, which may have anything in it: state, parent, ..., the 12th to 15th are
        # the times of the process and of its children that have been waited for.
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
