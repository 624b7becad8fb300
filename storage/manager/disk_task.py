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
from odradek.storage.open_segments import OutOfDescriptors, is_for_want_of_descriptors

Step = Callable[[], None]


def _nothing() -> None:
    """For work that was pointless from the beginning."""


def _ignore(is_done: bool) -> None:
    """Nobody wants to know."""


class DiskWork:
    """Something to be done in one log directory."""

    __slots__ = (
        "_begin",
        "_ended",
        "_is_pointless",
        "_step",
        "directory",
        "is_exclusive",
        "is_running",
        "what",
    )

    def __init__(
        self,
        directory: LogDirectory,
        what: str,
        begin: Callable[[], Step],
        *,
        ended: Callable[[bool], None] = _ignore,
        is_pointless: Callable[[], bool] = lambda: False,
        is_exclusive: bool = False,
    ) -> None:
        """``begin`` returns what is to be run; ``ended`` is told whether it was done.

        It was not if it was broken off, at a point that is not known, or if it was pointless, which
        is asked before the one and before the other.
        """
        self.directory = directory
        self.what = what
        self.is_exclusive = is_exclusive
        self.is_running = False
        self._begin = begin
        self._ended = ended
        self._is_pointless = is_pointless
        self._step: Step = _nothing

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
        if directory.failure is not None:
            raise directory.offline()
        if self._is_pointless():
            return
        if self.is_exclusive:
            assert not directory.is_busy, f"{self} beside other work"
        try:
            self._step = self._begin()
        except OSError as failure:
            raise self._failed(failure) from failure
        except OutOfDescriptors:
            self._ended(False)
            raise
        directory.is_busy = directory.is_busy or self.is_exclusive
        directory.begin_use()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """True if a failure means nothing any more."""
        step, self._step = self._step, _nothing
        assert not self.is_running, f"{self} was left before it had been run"
        is_begun = step is not _nothing
        if is_begun:
            # Else it is another's work that keeps it busy.
            self.directory.is_busy = self.directory.is_busy and not self.is_exclusive
            self.directory.end_use()
        is_pointless = not is_begun or self._is_pointless()
        if isinstance(failure, OSError) and not is_pointless:
            raise self._failed(failure) from failure
        self._ended(failure is None and not is_pointless)
        return isinstance(failure, OSError)

    def _failed(self, failure: OSError) -> KafkaStorageError:
        """What to raise."""
        if not is_for_want_of_descriptors(failure):
            return self.directory.fail(failure, self.what)
        self._ended(False)
        return OutOfDescriptors(f"{self.what} failed: {failure}")

    def __repr__(self) -> str:
        return f"DiskWork({self.directory.path}, {self.what})"


def carry_out(work: DiskWork) -> None:
    """For whoever may sleep."""
    with work:
        work.run()
