"""Bytes that stay in their file until the kernel sends them.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass, field


# Never changed, yet not frozen: that would take three times as long to make, for every fetch.
@dataclass(slots=True)
class FileRegion:
    """``length`` bytes of an open file from ``position`` on, ready for ``os.sendfile``.

    Treat as immutable.

    ``keeper`` holds the descriptor open for as long as the region exists, whatever becomes of the
    file meanwhile: a descriptor closed too early would be another file's by the time it is read.
    """

    descriptor: int
    position: int
    length: int
    file: object = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return self.length
