"""Receives events from the logs: logs warnings and progress, and forwards directory failures.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.storage.manager.directory import LogDirectory

log = logging.getLogger("kafka.log")

FailureListener = Callable[[LogDirectory, bool], None]


class LogEvents:
    """The broker's LogObserver."""

    def __init__(self) -> None:
        #: Called with each log directory that fails and whether it was the last one online.
        self.on_directory_failure: FailureListener = lambda directory, is_last: None

    def on_warning(self, message: str) -> None:
        log.warning("%s", message)

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        # Log once for each tenth, because there may be thousands of logs.
        if done * 10 // total > (done - 1) * 10 // total:
            log.info(
                "Recovering logs in %s since no clean shutdown file was found: %d of %d done",
                directory.path,
                done,
                total,
            )

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        log.error("%s", directory.error)
        self.on_directory_failure(directory, is_last)
