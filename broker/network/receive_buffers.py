"""Where frames are received: one buffer that all connections of a processor share, and others.

    shared   what is read first, of any connection; free again as soon as its frames are answered
    lent     the shared one, kept by a connection whose answer is not done: another takes its place
    own      for one frame that did not come whole; allocated once its size was accepted

A large buffer is memory that the kernel gives page by page as bytes arrive, so that a peer that
announces much and sends little costs little.  A few are kept for the next ones, since giving pages
costs more than filling them.

Owner: the loop of one processor.
"""

from __future__ import annotations

import mmap

SHARED_BYTES = 64 * 1024
# Less than this is allocated as it is: a page or four matter to nobody.
MAPPED_BYTES_MIN = 16 * 1024
# Just above the largest request that clients send by default (1 MiB and its header).
POOLED_BUFFER_BYTES_MAX = 2 * 1024 * 1024
POOL_BYTES_MAX = 8 * 1024 * 1024


class ReceiveBuffers:
    """``shared`` is read into; whoever needs it for longer calls ``lend_shared``."""

    def __init__(self) -> None:
        self._free_buffers: dict[int, list[memoryview]] = {}
        self._free_bytes = 0
        self.shared = self.allocate(SHARED_BYTES)

    def detach_shared(self) -> memoryview:
        """The shared buffer, no longer shared; to be given back."""
        detached, self.shared = self.shared, self.allocate(SHARED_BYTES)
        return detached

    def allocate(self, size: int) -> memoryview:
        """A buffer of at least so many bytes, with anything in it; to be given back."""
        if size < MAPPED_BYTES_MIN:
            return memoryview(bytearray(size))
        rounded = 1 << (size - 1).bit_length() if size <= POOLED_BUFFER_BYTES_MAX else size
        free_buffers = self._free_buffers.get(rounded)
        if free_buffers:
            self._free_bytes -= rounded
            return free_buffers.pop()
        return memoryview(mmap.mmap(-1, rounded))

    def release(self, buffer: memoryview) -> None:
        """Nobody may use it any more: it will be another frame's."""
        size = len(buffer)
        if size < MAPPED_BYTES_MIN or size > POOLED_BUFFER_BYTES_MAX:
            return
        if self._free_bytes + size <= POOL_BYTES_MAX:
            self._free_bytes += size
            self._free_buffers.setdefault(size, []).append(buffer)


class IncompleteFrame:
    """A frame, from its size to ``end`` in ``view``; so many bytes as ``filled`` have come."""

    __slots__ = ("end", "filled", "view")

    def __init__(self, view: memoryview, end: int, received: memoryview) -> None:
        self.view = view
        self.end = end
        self.filled = len(received)
        view[: self.filled] = received

    @property
    def remaining(self) -> memoryview:
        return self.view[self.filled : self.end]
