"""A task that blocks on disk, split into three parts so that the event loop never blocks.

    with task:              on the event loop: decide what to write
        task.run()          on any thread, such as a disk thread: write it
                            on the event loop: complete, or take the directory offline

The server awaits the middle part: ``with task: await disk_executor.run(task.run)``.  If it is
cancelled meanwhile, it must keep waiting: a thread cannot be stopped, and its writes must not mix
with those of later tasks.  Leaving the ``with`` block while ``run`` is running raises
AssertionError, and the task stays in progress for good: its directory stays in use, and its log
stays in the flushing state.  If ``run`` is called after the end of the block, it does nothing.
Callers that may block use ``execute``.

A task that changes file names or checkpoints of a directory is exclusive: only one exclusive task
per directory may be inside its ``with`` block at a time.  Other tasks may run concurrently.  Every
task that was returned to a caller must be run exactly once; the order does not matter.

If no file descriptor is left, the task fails with TooManyOpenFiles.  The component that created the
task creates it again at the next request, or recovers the log of the task.

A task becomes obsolete if its log is deleted or moved while the task waits or runs.  Its errors are
then ignored.

Owner: the event loop; ``run`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from odradek.protocol.errors import KafkaStorageError
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.open_segments import TooManyOpenFiles, is_too_many_open_files

Step = Callable[[], None]


def _no_op() -> None:
    """The step of a task that was obsolete from the beginning."""


def _ignore_completion(is_done: bool) -> None:
    """The default: no callback."""


class DiskTask:
    """An operation in one log directory."""

    __slots__ = (
        "_is_obsolete",
        "_on_complete",
        "_prepare",
        "_step",
        "description",
        "directory",
        "is_exclusive",
        "is_running",
    )

    def __init__(
        self,
        directory: LogDirectory,
        description: str,
        prepare: Callable[[], Step],
        *,
        on_complete: Callable[[bool], None] = _ignore_completion,
        is_obsolete: Callable[[], bool] = lambda: False,
        is_exclusive: bool = False,
    ) -> None:
        """``prepare`` returns the step to run; ``on_complete`` gets whether it was done.

        It was not done if it failed, possibly half-way, or if it is obsolete.  ``is_obsolete`` is
        called before ``prepare`` and before ``on_complete``.
        """
        self.directory = directory
        self.description = description
        self.is_exclusive = is_exclusive
        self.is_running = False
        self._prepare = prepare
        self._on_complete = on_complete
        self._is_obsolete = is_obsolete
        self._step: Step = _no_op

    def run(self) -> None:
        """Run the step, blocking on disk."""
        # Set is_running before reading _step.  __exit__ replaces _step before it checks is_running.
        # So either this call gets the no-op, or __exit__ sees that it is running.
        self.is_running = True
        try:
            self._step()
        finally:
            self.is_running = False

    def __enter__(self) -> None:
        directory = self.directory
        if directory.error is not None:
            raise directory.offline_error()
        if self._is_obsolete():
            return
        if self.is_exclusive:
            assert not directory.has_exclusive_task, f"{self} runs beside another exclusive task"
        try:
            self._step = self._prepare()
        except OSError as error:
            raise self._handle_os_error(error) from error
        except TooManyOpenFiles:
            self._on_complete(False)
            raise
        directory.has_exclusive_task = directory.has_exclusive_task or self.is_exclusive
        directory.begin_use()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Return True to suppress the error of an obsolete task."""
        step, self._step = self._step, _no_op
        assert not self.is_running, f"{self} was exited while it was running"
        was_prepared = step is not _no_op
        if was_prepared:
            # Otherwise another task has set has_exclusive_task.
            self.directory.has_exclusive_task = (
                self.directory.has_exclusive_task and not self.is_exclusive
            )
            self.directory.end_use()
        is_obsolete = not was_prepared or self._is_obsolete()
        if isinstance(error, OSError) and not is_obsolete:
            raise self._handle_os_error(error) from error
        self._on_complete(error is None and not is_obsolete)
        return isinstance(error, OSError)

    def _handle_os_error(self, error: OSError) -> KafkaStorageError:
        """Return the error to raise."""
        if not is_too_many_open_files(error):
            return self.directory.mark_offline(error, self.description)
        self._on_complete(False)
        return TooManyOpenFiles(f"{self.description} failed: {error}")

    def __repr__(self) -> str:
        return f"DiskTask({self.directory.path}, {self.description})"


def execute(task: DiskTask) -> None:
    """Run all parts of a task, for callers that may block."""
    with task:
        task.run()
