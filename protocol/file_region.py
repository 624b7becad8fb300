"""Bytes that stay in their file until the kernel sends them.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRegion:
    """``length`` bytes of an open file from ``position`` on, ready for ``os.sendfile``."""

    descriptor: int
    position: int
    length: int

    def __len__(self) -> int:
        return self.length
