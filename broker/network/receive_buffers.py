"""Buffers into which the connections of a processor receive requests.

    shared     every connection reads into it first; free again when its frames are processed
    detached   a shared buffer that a connection keeps while its response is pending; a new shared
               buffer replaces it
    own        for one frame that was not received at once; allocated after its size is validated

A large buffer is mapped memory, which the kernel provides page by page as bytes arrive: a client
that announces a large request and sends little costs little.  A few buffers are pooled, because
providing pages costs more than filling them.

Owner: the loop of one processor.
"""

from __future__ import annotations

import mmap

SHARED_BYTES = 64 * 1024
# Smaller buffers are plain byte arrays: up to four pages are not worth a mapping.
MAPPED_BYTES_MIN = 16 * 1024
# Just above the largest request that clients send by default (1 MiB and its header).
POOLED_BUFFER_BYTES_MAX = 2 * 1024 * 1024
POOL_BYTES_MAX = 8 * 1024 * 1024


class ReceiveBuffers:
    """Connections read into ``shared``; ``detach_shared`` takes it away for longer use."""

    def __init__(self) -> None:
        self._free_buffers: dict[int, list[memoryview]] = {}
        self._free_bytes = 0
        self.shared = self.allocate(SHARED_BYTES)

    def detach_shared(self) -> memoryview:
        """Return the shared buffer and replace it; the caller must release it."""
        detached, self.shared = self.shared, self.allocate(SHARED_BYTES)
        return detached

    def allocate(self, size: int) -> memoryview:
        """Return a buffer of at least ``size`` bytes, not cleared; the caller must release it."""
        if size < MAPPED_BYTES_MIN:
            return memoryview(bytearray(size))
        rounded = 1 << (size - 1).bit_length() if size <= POOLED_BUFFER_BYTES_MAX else size
        free_buffers = self._free_buffers.get(rounded)
        if free_buffers:
            self._free_bytes -= rounded
            return free_buffers.pop()
        return memoryview(mmap.mmap(-1, rounded))

    def release(self, buffer: memoryview) -> None:
        """Return a buffer to the pool.  The caller must not use it any more."""
        size = len(buffer)
        if size < MAPPED_BYTES_MIN or size > POOLED_BUFFER_BYTES_MAX:
            return
        if self._free_bytes + size <= POOL_BYTES_MAX:
            self._free_bytes += size
            self._free_buffers.setdefault(size, []).append(buffer)


class IncompleteFrame:
    """A frame with its size, from 0 to ``end`` of ``view``; ``filled`` bytes are received."""

    __slots__ = ("end", "filled", "view")

    def __init__(self, view: memoryview, end: int, received: memoryview) -> None:
        self.view = view
        self.end = end
        self.filled = len(received)
        view[: self.filled] = received

    @property
    def remaining(self) -> memoryview:
        return self.view[self.filled : self.end]
