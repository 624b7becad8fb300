"""Limits how many segments of a log are open.

An open segment uses three descriptors: one for the .log file and one for each memory-mapped index.
A log may have thousands of segments and a process has a limited number of descriptors, so of the
segments that are only read, those opened last stay open.  Half of the descriptors of the process
are shared equally by the logs that have open segments, but each log may keep at least
``OPEN_SEGMENTS_PER_LOG``.  Random reads in a few large logs find their segments open, and a
thousand logs stay within the limit.  Segments are closed in the order of opening, not of last use,
because otherwise every read would have to be recorded.  A region in use by a reader and a running
scan keep their file open: see open_file.py.

A segment that was appended to is not closed.  It has preallocated space to be trimmed, and an fsync
through its descriptor reports a failed write, while an fsync through a new descriptor may not.  It
is closed when it is sealed and flushed: see manager/hosted_log.py.

Segments in the same directory belong to the same log.  A log never closes segments of another log,
because each log may be opened and closed by a different thread.

If no descriptor is left to read a segment, that says nothing about the disk, and nothing has
changed: the error is DescriptorLimitReached, and clients get TooManyOpenFiles, which they retry.
In the middle of a change it is an OSError, like any other error that interrupts the change: see
manager/log_repair.py.

Invariant: after ``add``, at most ``max_open_segments()`` evictable segments of the log are open.
Owner: the owner of the log.
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
    """No descriptor is left to open another file; the operation may be retried."""


class DescriptorLimitReached(OSError):
    """No descriptor was left to read a file, and nothing has been changed before."""


class OpenSegments:
    """The open segments of one log, in the order in which they were opened."""

    def __init__(self) -> None:
        # Weak references: a reference cycle would keep files open until a garbage collection.
        self._segments: WeakKeyDictionary[LogSegment, None] = WeakKeyDictionary()

    def add(self, segment: LogSegment) -> None:
        """Add a segment that has just been opened; close others if there are too many."""
        self._segments.pop(segment, None)
        self._segments[segment] = None
        limit = max_open_segments()
        if len(self._segments) > limit:
            segments = list(self._segments)
            # Close some more than necessary, so that the next open need not scan all of them.
            close_evictable([each for each in segments if each.is_evictable][: -limit + limit // 8])

    def discard(self, segment: LogSegment) -> None:
        """Remove a segment that has been closed."""
        self._segments.pop(segment, None)


#: The open segments of a directory hold the references that keep an entry alive.
_open_segments_by_directory: WeakValueDictionary[Path, OpenSegments] = WeakValueDictionary()


def max_open_segments() -> int:
    """Return how many evictable segments of one log may be open."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(
        OPEN_SEGMENTS_PER_LOG,
        allowed // 2 // _DESCRIPTORS_PER_SEGMENT // max(1, len(_open_segments_by_directory)),
    )


def open_segments_of(segment: LogSegment) -> OpenSegments:
    """Return the open segments of the log that the segment belongs to."""
    return _open_segments_by_directory.setdefault(segment.directory, OpenSegments())


def close_evictable(segments: Iterable[LogSegment]) -> None:
    """Close the segments that can be reopened without loss."""
    for segment in segments:
        if segment.is_evictable:
            segment.close_handlers()


@contextmanager
def restore_open_state(segment: LogSegment) -> Iterator[None]:
    """Read a segment and close it again afterwards if it was closed before."""
    was_open, was_evictable = segment.is_open, segment.is_evictable
    try:
        yield
    except OSError as error:
        # A read that finds a damaged index rebuilds it, which is a change.
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
    """Wrap code that opens all files it needs before it changes anything."""
    try:
        yield
    except OSError as error:
        if is_too_many_open_files(error):
            raise TooManyOpenFiles(str(error)) from error
        raise


@contextmanager
def opening_file() -> Iterator[None]:
    """Wrap the opening of a file before anything has been changed."""
    try:
        yield
    except OSError as error:
        if is_too_many_open_files(error):
            raise DescriptorLimitReached(error.errno, error.strerror, error.filename) from error
        raise


@contextmanager
def not_retriable() -> Iterator[None]:
    """Wrap code that is left half done if any step fails, even a read."""
    try:
        yield
    except (TooManyOpenFiles, DescriptorLimitReached) as error:
        raise OSError(errno.EMFILE, str(error)) from error


def is_too_many_open_files(error: OSError) -> bool:
    """Whether the limit of the process or of the whole system was reached."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
