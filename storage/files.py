"""Everything that changes files: the system's calls, and what makes bytes survive a power cut.

A change is seen by every process at once, but survives a power cut only after a sync: of the file
for its bytes and its length, of the directory for its names (made, renamed or removed).  Between
the change and the sync either may be there, in any part and in any order.

    replace   writes NAME.tmp, syncs it, renames it over NAME, syncs the directory: whoever opens
              NAME, before or after any crash, finds the old content whole or the new content whole.
              A crash may leave NAME.tmp behind; nobody reads it, and the next replace overwrites it
    sync      fsync, as Kafka's force(true).  Files that are written through a memory map are synced
              so too, which on Linux writes mapped pages; msync is avoided because CPython holds the
              GIL over it (measured: a thread in ``mmap.flush`` stopped all others for 120 ms)

A failed sync must not be tried again: the kernel reports the loss once and then forgets it.  So
failures are not retried here, and whoever sees one gives up the directory.

``system`` is replaced as a whole by tests that let the power or the disk fail.  It is therefore
reached as ``files.system``, never imported by name.

Owner: none; holds no state, any thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

FilePath = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview

#: A gather write takes no more buffers than this: 1,024 on Linux, and 16 by POSIX's word.
BUFFERS_PER_WRITE = max(16, os.sysconf("SC_IOV_MAX"))

TEMPORARY_SUFFIX = ".tmp"
_BLOCK_BYTES = 4096


class SystemCalls:
    """The calls of the operating system, as it has them; OSError is all that they raise."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwritev = staticmethod(os.pwritev)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    listdir = staticmethod(os.listdir)
    utime = staticmethod(os.utime)

    @staticmethod
    def fallocate(descriptor: int, position: int, length: int) -> None:
        """Make room on the disk for a range of the file, whose bytes stay or become zeros."""
        if not hasattr(os, "posix_fallocate"):
            return _write_every_block(descriptor, position, length)
        try:
            os.posix_fallocate(descriptor, position, length)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            _write_every_block(descriptor, position, length)

    @staticmethod
    def sync_directory(path: FilePath) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


system = SystemCalls()


def open_for_writing(path: FilePath) -> int:
    """A descriptor to read and write; a missing file is made, empty."""
    return system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def open_for_reading(path: FilePath) -> int:
    return system.open(path, os.O_RDONLY | os.O_CLOEXEC)


def write_at(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all of the buffers there, in one call unless it comes back short; how many bytes.

    After a failure any part of them may be in the file: the caller does not move its end.
    """
    count = len(buffers)
    # One buffer is the usual case, and 0.6 us cheaper to measure so.
    length = len(buffers[0]) if count == 1 else sum(map(len, buffers))
    written_bytes = (
        system.pwritev(descriptor, buffers, position) if count <= BUFFERS_PER_WRITE else 0
    )
    if written_bytes != length:
        _write_remaining(descriptor, buffers, position, written_bytes)
    return length


def read_at(descriptor: int, length: int, position: int) -> bytes:
    """As many bytes as asked for, fewer only at the end of the file."""
    content = system.pread(descriptor, length, position)
    while 0 < len(content) < length:
        more = system.pread(descriptor, length - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def read(path: FilePath) -> bytes | None:
    """The whole file; None if there is none."""
    try:
        descriptor = open_for_reading(path)
    except FileNotFoundError:
        return None
    try:
        return read_at(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        system.close(descriptor)


def size_of(path: FilePath) -> int | None:
    """In bytes; None if there is no file."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def truncate(path: FilePath, length: int) -> None:
    """Cut the file, or lengthen it with a hole that reads as zeros."""
    descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        system.ftruncate(descriptor, length)
    finally:
        system.close(descriptor)


def sync(descriptor: int) -> None:
    """The bytes and the length of the file survive; its name only if its directory is synced."""
    system.fsync(descriptor)


def sync_path(path: FilePath) -> None:
    descriptor = open_for_reading(path)
    try:
        system.fsync(descriptor)
    finally:
        system.close(descriptor)


def sync_directory(path: FilePath) -> None:
    """The names in the directory survive; what they name does not by this."""
    system.sync_directory(path)


def replace(path: FilePath, content: bytes) -> None:
    """Old or new, never a part: see above.  Durable when it returns."""
    temporary = os.fspath(path) + TEMPORARY_SUFFIX
    descriptor = system.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_at(descriptor, [content], 0)
        system.fsync(descriptor)
    finally:
        system.close(descriptor)
    rename_durably(temporary, path)


def write_unsynced(path: FilePath, content: bytes) -> None:
    """In place, for what is worth little: a crash may leave any part of it."""
    descriptor = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_at(descriptor, [content], 0)
    finally:
        system.close(descriptor)


def rename(source: FilePath, target: FilePath) -> None:
    """Atomic, and replaces a file of that name; undone by a power cut before the next sync."""
    system.rename(source, target)


def rename_durably(source: FilePath, target: FilePath) -> None:
    """Within one directory, as all renames of a log are."""
    assert _parent_directory(source) == _parent_directory(target), (source, target)
    system.rename(source, target)
    system.sync_directory(_parent_directory(target))


def remove(path: FilePath) -> bool:
    """False if there was nothing to remove; a power cut before the next sync brings it back."""
    try:
        system.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_durably(path: FilePath) -> bool:
    """False if there was nothing to remove; even then it stays away from here on."""
    was_there = remove(path)
    system.sync_directory(_parent_directory(path))
    return was_there


def create_directory(path: FilePath) -> None:
    """Durable when it returns; the directory above must exist."""
    system.mkdir(path)
    system.sync_directory(_parent_directory(path))


def remove_directory(path: FilePath) -> None:
    """With all that is in it.  Begun again after a crash, it removes what is left."""
    for name in system.listdir(path):
        entry_path = os.path.join(path, name)
        if os.path.isdir(entry_path) and not os.path.islink(entry_path):
            remove_directory(entry_path)
        else:
            remove(entry_path)
    system.rmdir(path)


def set_modified_ns(path: FilePath, modified_ns: int) -> None:
    """Retention falls back on a file's age where its records have no timestamps."""
    system.utime(path, ns=(modified_ns, modified_ns))


def _parent_directory(path: FilePath) -> str:
    return os.path.dirname(path) or os.curdir


def _write_remaining(
    descriptor: int, buffers: Sequence[Buffer], position: int, written_bytes: int
) -> None:
    total_bytes, remaining = written_bytes, list(buffers)
    while remaining := _skip_bytes(remaining, written_bytes):
        written_bytes = system.pwritev(
            descriptor, remaining[:BUFFERS_PER_WRITE], position + total_bytes
        )
        if written_bytes == 0:
            raise OSError(errno.EIO, f"pwritev wrote 0 bytes at {position + total_bytes}")
        total_bytes += written_bytes


def _skip_bytes(buffers: list[Buffer], count: int) -> list[Buffer]:
    """What is left to write when ``count`` bytes of the buffers have been."""
    for at, buffer in enumerate(buffers):
        if count < len(buffer):
            return [memoryview(buffer)[count:], *buffers[at + 1 :]]
        count -= len(buffer)
    return []


def _write_every_block(descriptor: int, position: int, length: int) -> None:
    """Where room cannot be asked for, a byte written into each block takes it."""
    end = position + length
    for at in (*range(position, end, _BLOCK_BYTES), end - 1):
        os.pwrite(descriptor, os.pread(descriptor, 1, at) or b"\0", at)
