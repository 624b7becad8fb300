"""Which of a log's segments are open, and which are closed so that others can be?

An open segment takes three descriptors: one for its batches, and one for each index, as a memory
map has its own.  A log may have thousands of segments and a process only so many descriptors, so
of those that are merely read, only the last that were opened stay open.  Half of the descriptors
that the process may have are shared out among the logs that have any segment open, but each log may
keep ``OPEN_MAX`` in any case: random reads in a few large logs find what they need open, and a
thousand logs stay within bounds.  It goes by when segments were opened, not by when they were read,
as every read would have to be noted for that.  A region that a reader was lent, and a walk that is
under way, keep their file: see open_file.py.

A segment that was written to is spared.  It has room ahead to be cut off, and a sync through its
descriptor is sure to tell of a failed write, which a file that was closed meanwhile may have
forgotten.  It is closed when it is sealed and synced: see manager/hosted_log.py.

Segments are of one log if they are in one directory.  No log closes segments of another, as each
may have a thread of its own when it is opened and closed.

That no descriptor was left to look at a segment says nothing about the disk, and nothing has
changed: it is NotOpened, and for clients OutOfDescriptors, which they retry.  In the middle of a
change it is an OSError like anything else that breaks it off: see manager/mending.py.

Invariant: after ``note``, no more than ``open_max()`` segments of the log are open and at rest.
Owner: that of the log.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from odradek.protocol.errors import KafkaStorageError

if TYPE_CHECKING:
    from odradek.storage.log_segment import LogSegment

OPEN_MAX = 16
_DESCRIPTORS_EACH = 3


class OutOfDescriptors(KafkaStorageError):
    """Too many files are open to open another; what was to be done may be tried again."""


class NotOpened(OSError):
    """There was no descriptor left for a look at a file, before which nothing was changed."""


class OpenSegments:
    """Those of one log, in the order in which they were opened."""

    def __init__(self) -> None:
        # Weakly, as they refer to it: a circle would keep files open until it is found.
        self._opened: WeakKeyDictionary[LogSegment, None] = WeakKeyDictionary()

    def note(self, segment: LogSegment) -> None:
        """It has just been opened, and stays so."""
        self._opened.pop(segment, None)
        self._opened[segment] = None
        most = open_max()
        if len(self._opened) > most:
            opened = list(self._opened)
            # Some more than need be, or going over all of them would be due again at once.
            let_go([each for each in opened if each.is_at_rest][: -most + most // 8])

    def forget(self, segment: LogSegment) -> None:
        """It has been closed."""
        self._opened.pop(segment, None)


#: Kept by the segments that are open in a directory.
_in_directory: WeakValueDictionary[Path, OpenSegments] = WeakValueDictionary()


def open_max() -> int:
    """How many segments of one log may be open that are merely read."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(OPEN_MAX, allowed // 2 // _DESCRIPTORS_EACH // max(1, len(_in_directory)))


def beside(segment: LogSegment) -> OpenSegments:
    """The open segments of the log that it belongs to."""
    return _in_directory.setdefault(segment.directory, OpenSegments())


def let_go(segments: Iterable[LogSegment]) -> None:
    """Close those that can be opened again as they are."""
    for segment in segments:
        if segment.is_at_rest:
            segment.abandon()


@contextmanager
def left_as_found(segment: LogSegment) -> Iterator[None]:
    """For a look: if it is closed, it is closed again afterwards."""
    was_open, was_at_rest = segment.is_open, segment.is_at_rest
    try:
        yield
    except OSError as failure:
        # A look that meets a damaged index makes it anew, which is no mere look.
        is_changed = was_at_rest and not segment.is_at_rest
        if is_for_want_of_descriptors(failure) and not is_changed:
            raise OutOfDescriptors(str(failure)) from failure
        with undivided():
            raise
    finally:
        if not was_open:
            let_go([segment])


@contextmanager
def retriable() -> Iterator[None]:
    """Around what changes nothing before it has opened all it needs."""
    try:
        yield
    except OSError as failure:
        if is_for_want_of_descriptors(failure):
            raise OutOfDescriptors(str(failure)) from failure
        raise


@contextmanager
def looking() -> Iterator[None]:
    """Around the opening of a file, where nothing has been changed before."""
    try:
        yield
    except OSError as failure:
        if is_for_want_of_descriptors(failure):
            raise NotOpened(failure.errno, failure.strerror, failure.filename) from failure
        raise


@contextmanager
def undivided() -> Iterator[None]:
    """Around what is left half done if it is broken off, even by a mere look."""
    try:
        yield
    except (OutOfDescriptors, NotOpened) as refusal:
        raise OSError(errno.EMFILE, str(refusal)) from refusal


def is_for_want_of_descriptors(failure: OSError) -> bool:
    """Of the process, or of the whole system."""
    return failure.errno in (errno.EMFILE, errno.ENFILE)
