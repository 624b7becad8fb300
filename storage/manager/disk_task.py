"""Work that sleeps in the kernel, in three parts, so that the owner of the logs never has to.

    with work:              the owner: from here on it stands what is to be written
        work.run()          anywhere, such as on a disk thread
                            the owner again: it is done, or the directory goes offline

A server awaits the middle part: ``with work: await disk.run(work.run)``.  If it is cancelled then,
it has to wait on: a thread cannot be stopped, and what it still writes must not meet what others
write in its place.  Leaving while ``run`` is under way is an AssertionError, and the work remains
under way for good: its directory busy, its log syncing.  A ``run`` that had not begun by the end
does nothing.  Whoever may sleep calls ``carry_out``.

Work that changes a directory's names or checkpoints is ``exclusive``: no two of those of one
directory may be between ``with`` and its end at once.  All else may run side by side.  What was
handed out has to be carried out, each once, in any order.

If there is no descriptor left to open what it needs, it is broken off with OutOfDescriptors, and
whoever handed it out hands it out again when asked again, or mends the log that it was for.

Work may become pointless while it waits or runs, since the log it was for has been deleted or has
moved: then its failing means nothing.

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
    """For work that was pointless from the beginning."""


def _ignore_completion(is_done: bool) -> None:
    """Nobody wants to know."""


class DiskTask:
    """Something to be done in one log directory."""

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
        """``begin`` returns what is to be run; ``ended`` is told whether it was done.

        It was not if it was broken off, at a point that is not known, or if it was pointless, which
        is asked before the one and before the other.
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
        """Sleeps in the kernel."""
        # In this order, and the other way round at the end: one of the two sees the other.
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
        """True if a failure means nothing any more."""
        step, self._step = self._step, _no_op
        assert not self.is_running, f"{self} was exited while it was running"
        was_prepared = step is not _no_op
        if was_prepared:
            # Else it is another's work that keeps it busy.
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
        """What to raise."""
        if not is_too_many_open_files(error):
            return self.directory.mark_offline(error, self.description)
        self._on_complete(False)
        return TooManyOpenFiles(f"{self.description} failed: {error}")

    def __repr__(self) -> str:
        return f"DiskTask({self.directory.path}, {self.description})"


def execute(task: DiskTask) -> None:
    """For whoever may sleep."""
    with task:
        task.run()
