"""Every call that changes files, and the steps that make a change survive a power cut.

Every process sees a change at once, but the change survives a power cut only after an fsync: of
the file for its bytes and its length, of the directory for its names (created, renamed or removed).
Between the change and the fsync, a power cut may leave any part of the changes, in any order.

    replace   writes NAME.tmp, fsyncs it, renames it to NAME, fsyncs the directory.  A reader that
              opens NAME before or after any crash gets either the complete old content or the
              complete new content.  A crash may leave NAME.tmp behind; no code reads it, and the
              next replace overwrites it
    sync      fsync, like Kafka's force(true).  It is also used for files that are written through a
              memory map: on Linux fsync writes mapped pages.  msync is avoided because CPython
              holds the GIL during it (measured: ``mmap.flush`` stops all other threads for 120 ms)

A failed fsync must not be retried: the kernel reports the loss once and then forgets it.  This
module does not retry, and a caller that gets such an error gives up the log directory.

Tests replace ``system`` as a whole to simulate a power cut or a failing disk.  Always refer to it
as ``files.system``; never import it by name.

Owner: none; holds no state, any thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

FilePath = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview

#: The maximum number of buffers in one pwritev: 1,024 on Linux; POSIX guarantees 16.
BUFFERS_PER_WRITE = max(16, os.sysconf("SC_IOV_MAX"))

TEMPORARY_SUFFIX = ".tmp"
_BLOCK_BYTES = 4096


class SystemCalls:
    """The operating system's calls, unchanged.  They raise only OSError."""

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
        """Allocate disk blocks for a range of the file; existing bytes stay, new ones are zero."""
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
    """Return a descriptor for reading and writing; create an empty file if there is none."""
    return system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def open_for_reading(path: FilePath) -> int:
    return system.open(path, os.O_RDONLY | os.O_CLOEXEC)


def write_at(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all buffers at ``position`` and return the number of bytes.

    Uses one call unless the kernel writes fewer bytes.  After an error any part of the bytes may be
    in the file, so the caller must not advance its end of file.
    """
    count = len(buffers)
    # Most writes have one buffer; this saves 0.6 us.
    length = len(buffers[0]) if count == 1 else sum(map(len, buffers))
    written_bytes = (
        system.pwritev(descriptor, buffers, position) if count <= BUFFERS_PER_WRITE else 0
    )
    if written_bytes != length:
        _write_remaining(descriptor, buffers, position, written_bytes)
    return length


def read_at(descriptor: int, length: int, position: int) -> bytes:
    """Read ``length`` bytes; return fewer only at the end of the file."""
    content = system.pread(descriptor, length, position)
    while 0 < len(content) < length:
        more = system.pread(descriptor, length - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def read(path: FilePath) -> bytes | None:
    """Return the content of the file, or None if it does not exist."""
    try:
        descriptor = open_for_reading(path)
    except FileNotFoundError:
        return None
    try:
        return read_at(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        system.close(descriptor)


def size_of(path: FilePath) -> int | None:
    """Return the size in bytes, or None if the file does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def truncate(path: FilePath, length: int) -> None:
    """Set the length of the file; new bytes are a hole that reads as zeros."""
    descriptor = system.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        system.ftruncate(descriptor, length)
    finally:
        system.close(descriptor)


def sync(descriptor: int) -> None:
    """Make bytes and length of the file durable.  Its name needs ``sync_directory``."""
    system.fsync(descriptor)


def sync_path(path: FilePath) -> None:
    descriptor = open_for_reading(path)
    try:
        system.fsync(descriptor)
    finally:
        system.close(descriptor)


def sync_directory(path: FilePath) -> None:
    """Make the names in the directory durable, but not the content of the files."""
    system.sync_directory(path)


def replace(path: FilePath, content: bytes) -> None:
    """Replace the whole file atomically.  The new content is durable when this returns."""
    temporary = os.fspath(path) + TEMPORARY_SUFFIX
    descriptor = system.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_at(descriptor, [content], 0)
        system.fsync(descriptor)
    finally:
        system.close(descriptor)
    rename_durably(temporary, path)


def write_unsynced(path: FilePath, content: bytes) -> None:
    """Write in place, for content that can be lost: a crash may leave any part of it."""
    descriptor = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_at(descriptor, [content], 0)
    finally:
        system.close(descriptor)


def rename(source: FilePath, target: FilePath) -> None:
    """Rename atomically, replacing ``target``.  Without an fsync a power cut may undo it."""
    system.rename(source, target)


def rename_durably(source: FilePath, target: FilePath) -> None:
    """Rename within one directory, as all renames of a log do, and fsync the directory."""
    assert _parent_directory(source) == _parent_directory(target), (source, target)
    system.rename(source, target)
    system.sync_directory(_parent_directory(target))


def remove(path: FilePath) -> bool:
    """Return False if there is no such file.  Without an fsync a power cut may undo the removal."""
    try:
        system.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_durably(path: FilePath) -> bool:
    """Return False if there is no such file.  The absence is durable in both cases."""
    was_there = remove(path)
    system.sync_directory(_parent_directory(path))
    return was_there


def create_directory(path: FilePath) -> None:
    """Create a durable directory; its parent must exist."""
    system.mkdir(path)
    system.sync_directory(_parent_directory(path))


def remove_directory(path: FilePath) -> None:
    """Remove the directory with its content.  After a crash, call it again to finish."""
    for name in system.listdir(path):
        entry_path = os.path.join(path, name)
        if os.path.isdir(entry_path) and not os.path.islink(entry_path):
            remove_directory(entry_path)
        else:
            remove(entry_path)
    system.rmdir(path)


def set_modified_ns(path: FilePath, modified_ns: int) -> None:
    """Set the modification time, which retention uses for records without timestamps."""
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
    """Return the buffers without their first ``count`` bytes."""
    for at, buffer in enumerate(buffers):
        if count < len(buffer):
            return [memoryview(buffer)[count:], *buffers[at + 1 :]]
        count -= len(buffer)
    return []


def _write_every_block(descriptor: int, position: int, length: int) -> None:
    """Allocate blocks where fallocate is not available: write one byte into each block."""
    end = position + length
    for at in (*range(position, end, _BLOCK_BYTES), end - 1):
        os.pwrite(descriptor, os.pread(descriptor, 1, at) or b"\0", at)
