"""Keeps the CPU time of Spark's Python workers; every Python that Spark starts imports this.

PySpark's daemons ignore SIGCHLD, so Linux discards their workers, with their CPU time, as soon as
they exit.  With this directory on PYTHONPATH the workers stay as zombies, and process_tree.py can
count them.
"""

from __future__ import annotations

import signal
from typing import Any

_set_handler = signal.signal


def _set_handler_without_ignoring_children(number: int, handler: Any) -> Any:
    ignores_children = number == signal.SIGCHLD and handler == signal.SIG_IGN
    return _set_handler(number, signal.SIG_DFL if ignores_children else handler)


setattr(signal, "signal", _set_handler_without_ignoring_children)  # noqa: B010 - the types differ
