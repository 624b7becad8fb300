"""Which of a log's segments are open, and which are closed so that others can be?

An open segment takes three descriptors: one for its batches, and one for each index, as a memory
map has its own.  A log may have thousands of segments and a process only so many descriptors, so
of those that are merely read, the last ``OPEN_MAX`` that were opened stay open.  Readers within
them open nothing; whoever reads on through the whole log opens each segment once.  It goes by when
they were opened, not by when they were read, as every read would have to be noted for that.  A
region that a reader was lent, and a walk that is under way, keep their file: see open_file.py.

A segment that was written to is spared.  It has room ahead to be cut off, and a sync through its
descriptor is sure to tell of a failed write, which a file that was closed meanwhile may have
forgotten.  It is closed when it is sealed and synced: see manager/hosted_log.py.

Segments are of one log if they are in one directory.  No log closes segments of another, as each
may have a thread of its own when it is opened and closed.

That no descriptor was left to look at a segment says nothing about the disk, and nothing has
changed: it is OutOfDescriptors, which clients retry.

Invariant: after ``note``, no more than ``OPEN_MAX`` segments of the log are open and at rest.
Owner: that of the log.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from odradek.protocol.errors import KafkaStorageError

if TYPE_CHECKING:
    from odradek.storage.log_segment import LogSegment

OPEN_MAX = 16


class OutOfDescriptors(KafkaStorageError):
    """Too many files are open to open another.  Everything is as it was, and may be tried again."""


class OpenSegments:
    """Those of one log, in the order in which they were opened."""

    def __init__(self) -> None:
        # Weakly, as they refer to it: a circle would keep files open until it is found.
        self._opened: WeakKeyDictionary[LogSegment, None] = WeakKeyDictionary()

    def note(self, segment: LogSegment) -> None:
        """It has just been opened, and stays so."""
        opened = [each for each in self._opened if each.is_open and each is not segment]
        opened.append(segment)
        let_go([each for each in opened if each.is_at_rest][:-OPEN_MAX])
        self._opened = WeakKeyDictionary({each: None for each in opened if each.is_open})


#: Kept by the segments that were opened in a directory.
_in_directory: WeakValueDictionary[Path, OpenSegments] = WeakValueDictionary()


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


def is_for_want_of_descriptors(failure: OSError) -> bool:
    """Of the process, or of the whole system."""
    return failure.errno in (errno.EMFILE, errno.ENFILE)
