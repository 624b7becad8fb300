"""What the logs report unasked: notices and progress for the log, failures for those concerned.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.storage.manager.directory import LogDirectory

log = logging.getLogger(__name__)

FailureListener = Callable[[LogDirectory, bool], None]


class LogEvents:
    """The broker's LogObserver."""

    def __init__(self) -> None:
        #: Told of every directory that fails, and whether it was the last.
        self.on_directory_failure: FailureListener = lambda directory, is_last: None

    def on_warning(self, message: str) -> None:
        log.warning("%s", message)

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        # A tenth at a time: there may be thousands.
        if done * 10 // total > (done - 1) * 10 // total:
            log.info("%s was not closed: %d of %d logs are recovered", directory.path, done, total)

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        log.error("%s", directory.error)
        self.on_directory_failure(directory, is_last)
