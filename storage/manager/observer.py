"""What the logs report to whoever runs them, when nobody has asked.

Owner: the event loop.
"""

from __future__ import annotations

from typing import Protocol

from odradek.storage.manager.directory import LogDirectory


class LogObserver(Protocol):
    """Called in the middle of things: it may note what it is told, and act on it later."""

    def on_warning(self, message: str) -> None:
        """Something was not as it should be, and has been mended or left alone."""

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        """So many of the logs of a directory that was not closed cleanly have been recovered."""

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        """It is offline; ``is_last`` if none is left, and there is nothing more to serve."""
