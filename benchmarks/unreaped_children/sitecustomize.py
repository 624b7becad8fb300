"""Run by every Python that Spark starts for a benchmark: the time of its workers is kept.

PySpark's daemons have Linux forget their workers as soon as they end, and their CPU time with them.
With this folder on PYTHONPATH they stay, as processes that have ended and that nobody waits for, so
that process_tree.py can count them.
"""

from __future__ import annotations

import signal
from typing import Any

_set_handler = signal.signal


def _set_handler_without_ignoring_children(number: int, handler: Any) -> Any:
    ignores_children = number == signal.SIGCHLD and handler == signal.SIG_IGN
    return _set_handler(number, signal.SIG_DFL if ignores_children else handler)


setattr(signal, "signal", _set_handler_without_ignoring_children)  # noqa: B010 - it has another type
