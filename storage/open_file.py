"""A file that stays open for as long as somebody refers to it.

A region of a segment may be on its way to a slow client when the segment is deleted.  The region
refers to the open file, and so does the segment; when the last of them is gone, the descriptor is
closed.  No counting, and no way to forget giving a file back.

Owner: none; any thread may drop the last reference.
"""

from __future__ import annotations

from odradek.storage import files


class OpenFile:
    """A descriptor that closes itself."""

    __slots__ = ("descriptor",)

    def __init__(self, path: files.FilePath, *, writable: bool) -> None:
        self.descriptor = -1
        opened = files.open_for_writing(path) if writable else files.open_for_reading(path)
        self.descriptor = opened

    def fileno(self) -> int:
        return self.descriptor

    def __del__(self) -> None:
        if self.descriptor >= 0:
            files.system.close(self.descriptor)
