"""Callbacks by which the logs report events to the broker.

Owner: the event loop.
"""

from __future__ import annotations

from typing import Protocol

from odradek.storage.manager.directory import LogDirectory


class LogObserver(Protocol):
    """Called in the middle of an operation: it may record the event, and must act on it later."""

    def on_warning(self, message: str) -> None:
        """A problem was found, and repaired or ignored."""

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        """``done`` of ``total`` logs are recovered in a directory without a clean shutdown."""

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        """The directory is offline; ``is_last`` is set if no directory is online."""
