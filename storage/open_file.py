"""A file that stays open while it is referenced.

A region of a segment may still be on its way to a slow client when the segment is deleted, or
closed because too many files are open.  Both the region and the segment reference the open file;
when the last reference is gone, the descriptor is closed.  There is no reference count to maintain
and no release call to forget.

If no descriptor is free, opening raises DescriptorLimitReached: the caller has not changed anything
yet.

The descriptor number itself has this property: a scan that was given only ``descriptor`` keeps the
file open, so the number cannot be reused for another file.

Owner: none; any thread may drop the last reference.
"""

from __future__ import annotations

import os

from odradek.storage import files
from odradek.storage.open_segments import opening_file


class Descriptor(int):
    """A file descriptor that is closed when the last reference to the number is gone."""

    __slots__ = ()

    def __del__(self) -> None:
        files.system.close(int(self))


class OpenFile:
    """An open file whose descriptor closes itself."""

    __slots__ = ("descriptor",)

    def __init__(self, path: files.FilePath, *, writable: bool, must_exist: bool = False) -> None:
        """Create a missing file if it is writable, unless ``must_exist``."""
        with opening_file():
            if not writable:
                opened = files.open_for_reading(path)
            elif must_exist:
                opened = files.system.open(path, os.O_RDWR | os.O_CLOEXEC)
            else:
                opened = files.open_for_writing(path)
        self.descriptor = Descriptor(opened)

    def fileno(self) -> int:
        """Return the plain number; the number alone does not keep the file open."""
        return int(self.descriptor)
