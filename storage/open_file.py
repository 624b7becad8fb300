"""A file that stays open for as long as somebody refers to it.

A region of a segment may be on its way to a slow client when the segment is deleted, or closed for
want of descriptors.  The region refers to the open file, and so does the segment; when the last of
them is gone, the descriptor is closed.  No counting, and no way to forget giving a file back.

Want of descriptors is NotOpened here: whoever opens a file so has changed nothing before that.

The number itself does so: a walk over the file that was handed its ``descriptor`` and nothing else
cannot find another file under it.

Owner: none; any thread may drop the last reference.
"""

from __future__ import annotations

import os

from odradek.storage import files
from odradek.storage.open_segments import opening_file


class Descriptor(int):
    """A number of an open file, which is closed when nobody has the number any more."""

    __slots__ = ()

    def __del__(self) -> None:
        files.system.close(int(self))


class OpenFile:
    """A descriptor that closes itself."""

    __slots__ = ("descriptor",)

    def __init__(self, path: files.FilePath, *, writable: bool, must_exist: bool = False) -> None:
        """What is written to is made if it is missing, unless it should have been there."""
        with opening_file():
            if not writable:
                opened = files.open_for_reading(path)
            elif must_exist:
                opened = files.system.open(path, os.O_RDWR | os.O_CLOEXEC)
            else:
                opened = files.open_for_writing(path)
        self.descriptor = Descriptor(opened)

    def fileno(self) -> int:
        """For a look; the number alone keeps nothing open."""
        return int(self.descriptor)
