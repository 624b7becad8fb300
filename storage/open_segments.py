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

OPEN_SEGMENTS_PER_LOG = 16
_DESCRIPTORS_PER_SEGMENT = 3


class TooManyOpenFiles(KafkaStorageError):
    """Too many files are open to open another; what was to be done may be tried again."""


class DescriptorLimitReached(OSError):
    """There was no descriptor left for a look at a file, before which nothing was changed."""


class OpenSegments:
    """Those of one log, in the order in which they were opened."""

    def __init__(self) -> None:
        # Weakly, as they refer to it: a circle would keep files open until it is found.
        self._segments: WeakKeyDictionary[LogSegment, None] = WeakKeyDictionary()

    def add(self, segment: LogSegment) -> None:
        """It has just been opened, and stays so."""
        self._segments.pop(segment, None)
        self._segments[segment] = None
        limit = max_open_segments()
        if len(self._segments) > limit:
            segments = list(self._segments)
            # Some more than need be, or going over all of them would be due again at once.
            close_evictable([each for each in segments if each.is_evictable][: -limit + limit // 8])

    def discard(self, segment: LogSegment) -> None:
        """It has been closed."""
        self._segments.pop(segment, None)


#: Kept by the segments that are open in a directory.
_open_segments_by_directory: WeakValueDictionary[Path, OpenSegments] = WeakValueDictionary()


def max_open_segments() -> int:
    """How many segments of one log may be open that are merely read."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(
        OPEN_SEGMENTS_PER_LOG,
        allowed // 2 // _DESCRIPTORS_PER_SEGMENT // max(1, len(_open_segments_by_directory)),
    )


def open_segments_of(segment: LogSegment) -> OpenSegments:
    """The open segments of the log that it belongs to."""
    return _open_segments_by_directory.setdefault(segment.directory, OpenSegments())


def close_evictable(segments: Iterable[LogSegment]) -> None:
    """Close those that can be opened again as they are."""
    for segment in segments:
        if segment.is_evictable:
            segment.close_handlers()


@contextmanager
def restore_open_state(segment: LogSegment) -> Iterator[None]:
    """For a look: if it is closed, it is closed again afterwards."""
    was_open, was_evictable = segment.is_open, segment.is_evictable
    try:
        yield
    except OSError as error:
        # A look that meets a damaged index makes it anew, which is no mere look.
        is_changed = was_evictable and not segment.is_evictable
        if is_too_many_open_files(error) and not is_changed:
            raise TooManyOpenFiles(str(error)) from error
        with not_retriable():
            raise
    finally:
        if not was_open:
            close_evictable([segment])


@contextmanager
def retriable() -> Iterator[None]:
    """Around what changes nothing before it has opened all it needs."""
    try:
        yield
    except OSError as error:
        if is_too_many_open_files(error):
            raise TooManyOpenFiles(str(error)) from error
        raise


@contextmanager
def opening_file() -> Iterator[None]:
    """Around the opening of a file, where nothing has been changed before."""
    try:
        yield
    except OSError as error:
        if is_too_many_open_files(error):
            raise DescriptorLimitReached(error.errno, error.strerror, error.filename) from error
        raise


@contextmanager
def not_retriable() -> Iterator[None]:
    """Around what is left half done if it is broken off, even by a mere look."""
    try:
        yield
    except (TooManyOpenFiles, DescriptorLimitReached) as error:
        raise OSError(errno.EMFILE, str(error)) from error


def is_too_many_open_files(error: OSError) -> bool:
    """Of the process, or of the whole system."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
