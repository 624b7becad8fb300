"""An array of fixed-size entries in a memory-mapped file.  Kafka: AbstractIndex.

An array that is appended to is preallocated: the file is extended to its maximum length, and its
blocks are allocated one page at a time before the map is written.  (On a full disk a store into a
hole would not raise an error but kill the process; the allocation fails with ENOSPC.)  Closing and
sealing truncate the file to its entries.  A file whose length is not a multiple of the entry size,
or that ends in zeros, was therefore not closed: see index_sanity_check.py.

The map is created on first use: a thousand idle partitions hold no map and no descriptor for it.

Invariant: no view of the map is handed out, because a map with views cannot be closed.
Owner: the event loop; ``flush`` may run on a disk thread.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Any

from odradek.storage import files

PAGE_BYTES = mmap.PAGESIZE


class MappedEntries:
    """Entries are numbered from 0; the number is called a slot."""

    def __init__(self, path: Path, layout: Struct, *, bytes_max: int) -> None:
        """Read the size of the file; the first append creates it if it does not exist."""
        self.path = path
        self.entry_bytes = layout.size
        self.capacity = max(1, bytes_max // layout.size)
        self._unpack_from = layout.unpack_from
        self._pack_into = layout.pack_into
        self._map: mmap.mmap | None = None
        self._allocated_count = 0  # number of entries that fit into the allocated blocks
        size_bytes = files.size_of(path)
        self.existed = size_bytes is not None
        self.file_bytes = size_bytes or 0
        self.count = self.file_bytes // layout.size

    @property
    def is_full(self) -> bool:
        return self.count >= self.capacity

    @property
    def has_preallocated_space(self) -> bool:
        """Whether the file is longer than its entries, with space for further entries."""
        return self._allocated_count > 0

    @property
    def has_whole_entries(self) -> bool:
        """Whether the length of the file, when it was opened, was a multiple of the entry size."""
        return self.file_bytes % self.entry_bytes == 0

    def __getitem__(self, slot: int) -> tuple[Any, ...]:
        assert 0 <= slot < self.count, (self.path, slot)
        if self._map is None:
            self._open_map(writable=False)
        return self._unpack_from(self._map, slot * self.entry_bytes)  # type: ignore[arg-type]

    def read_first_and_last(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Return the first and the last entry without creating a map; None if there are none."""
        if self.count == 0:
            return None
        descriptor = files.open_for_reading(self.path)
        try:
            first = files.read_at(descriptor, self.entry_bytes, 0)
            last = files.read_at(descriptor, self.entry_bytes, (self.count - 1) * self.entry_bytes)
        finally:
            files.system.close(descriptor)
        return self._unpack_from(first), self._unpack_from(last)

    def count_up_to(self, value: int) -> int:
        """Return the number of entries whose first field is at most ``value``; they ascend."""
        if self.count == 0:
            return 0
        if self._map is None:
            self._open_map(writable=False)
        # Bisection by hand with local variables: a lookup in a full index takes 16 rounds.
        unpack_from, entries, entry_bytes = self._unpack_from, self._map, self.entry_bytes
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(entries, middle * entry_bytes)[0] <= value:  # type: ignore[arg-type]
                low = middle + 1
            else:
                high = middle
        return low

    def reserve(self, count: int = 1) -> None:
        """Allocate space for more entries, up to the capacity; appending them cannot fail."""
        reserved_count = min(self.count + count, self.capacity)
        while self._allocated_count < reserved_count:
            self._allocate_page()

    def append(self, first: int, second: int) -> None:
        count = self.count
        if count >= self._allocated_count:
            self._allocate_page()
        self._pack_into(self._map, count * self.entry_bytes, first, second)  # type: ignore[arg-type]
        self.count = count + 1

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        assert count <= self.count, (self.path, count)
        if count < self.count:
            self.count = count
            self.trim_to_valid_size()

    def reset(self) -> None:
        """Remove every entry, whatever the state of the file."""
        self.count = 0
        self.trim_to_valid_size()

    def trim_to_valid_size(self) -> None:
        """Truncate the file to its entries; create it if it does not exist.

        A later append preallocates it again.
        """
        self.close_handlers()
        self.file_bytes = self.count * self.entry_bytes
        descriptor = files.open_for_writing(self.path)
        try:
            if os.fstat(descriptor).st_size != self.file_bytes:
                files.system.ftruncate(descriptor, self.file_bytes)
        finally:
            files.system.close(descriptor)

    def flush(self) -> None:
        """Make the entries written so far durable."""
        if self.path.exists():
            files.sync_path(self.path)

    def close_handlers(self) -> None:
        """Close the map and leave the file as it is."""
        if self._map is not None:
            self._map.close()
            self._map = None
        self._allocated_count = 0

    def _allocate_page(self) -> None:
        """Open the map for writing, if necessary, and allocate the page of the next entry."""
        assert not self.is_full, self.path
        if self._allocated_count == 0:
            self._open_map(writable=True)
        length = self.capacity * self.entry_bytes
        begin = self._allocated_count * self.entry_bytes
        end = (max(self._allocated_count, self.count) + 1) * self.entry_bytes
        end = min(-(-end // PAGE_BYTES) * PAGE_BYTES, length)
        descriptor = files.open_for_writing(self.path)
        try:
            files.system.fallocate(descriptor, begin, end - begin)
        finally:
            files.system.close(descriptor)
        self._allocated_count = end // self.entry_bytes

    def _open_map(self, *, writable: bool) -> None:
        self.close_handlers()
        open_file = files.open_for_writing if writable else files.open_for_reading
        descriptor = open_file(self.path)
        try:
            length = os.fstat(descriptor).st_size
            if length < self.count * self.entry_bytes:
                raise OSError(errno.EIO, "index file is cut short", os.fspath(self.path))
            if writable:
                length = self.capacity * self.entry_bytes
                files.system.ftruncate(descriptor, length)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, length, access=access)
            # Without this the kernel reads ahead into the free space, and a store takes 10 ms.
            if hasattr(mmap, "MADV_RANDOM"):
                self._map.madvise(mmap.MADV_RANDOM)
        finally:
            files.system.close(descriptor)
