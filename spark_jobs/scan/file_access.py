"""Files to be read: local ones, and those of any file system that pyarrow or fsspec opens.

A path with ``://`` in it is a URI.  pyarrow knows file, hdfs, s3 and gs; fsspec, if there is one,
knows the rest.  Local files are read with the system's own calls, into memory that is used again:
never mapped, since a log that is cut while it is read would kill the process.

A file that is being written to has the size that it had when it was opened.

Owner: whoever opened it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.spark_jobs.scan.damage import ScanFailed


class File(Protocol):
    """An open file; ``path`` is what it is called in reports."""

    path: str
    size_bytes: int
    piece_bytes: int  # to ask for at once, if more is wanted

    def read_into(self, target: memoryview, position: int) -> int:
        """How many bytes were read: fewer than there is room for only at the end of the file."""
        ...


class FileSystem(Protocol):
    """The part of a file system that scanning needs; a missing file is FileNotFoundError."""

    def names(self, directory: str) -> list[str]: ...

    def is_directory(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def open(self, path: str) -> Any: ...  # a context manager of a File


def file_system_of(path: str) -> FileSystem:
    """The one that ``path``, and everything below it, is in."""
    return LocalFiles() if "://" not in path else ArrowFiles(path)


def read_whole(system: FileSystem, path: str) -> bytes | None:
    """None if there is no such file."""
    try:
        with system.open(path) as file:
            content = bytearray(file.size_bytes)
            return bytes(content[: file.read_into(memoryview(content), 0)])
    except FileNotFoundError:
        return None


def joined(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


#: Small enough to be still in the processor's cache when its checksums are computed.
LOCAL_PIECE_BYTES = 256 * 1024
#: Each request to an object store takes its time, whatever it asks for.
DISTANT_PIECE_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class _LocalFile:
    path: str
    size_bytes: int
    descriptor: int
    piece_bytes: int

    def read_into(self, target: memoryview, position: int) -> int:
        done = 0
        while done < len(target):
            count = os.preadv(self.descriptor, [target[done:]], position + done)
            if count == 0:
                break
            done += count
        return done


class LocalFiles:
    """Files of this machine."""

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    @contextmanager
    def open(self, path: str) -> Iterator[_LocalFile]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield _LocalFile(
                path, os.fstat(descriptor).st_size, descriptor, piece_bytes=LOCAL_PIECE_BYTES
            )
        finally:
            os.close(descriptor)


class _ArrowFile:
    def __init__(self, path: str, opened: Any) -> None:
        self.path = path
        self.size_bytes: int = opened.size()
        self.piece_bytes = DISTANT_PIECE_BYTES
        self._opened = opened

    def read_into(self, target: memoryview, position: int) -> int:
        length = max(0, min(len(target), self.size_bytes - position))
        content = self._opened.read_at(length, position)
        target[: len(content)] = content
        return len(content)


class ArrowFiles:
    """The files of a URI's file system, by URIs."""

    def __init__(self, uri: str) -> None:
        self._scheme = uri.split("://", 1)[0]
        self._system, inside = _opened_by_arrow(uri) or _opened_by_fsspec(uri)
        # What stands before the path inside the file system: "s3://", "hdfs://host:port".
        self._prefix = uri.rstrip("/").removesuffix(inside.rstrip("/"))

    def names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self._system.get_file_info(FileSelector(self._inside(directory)))
        return sorted(each.base_name for each in found)

    def is_directory(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._system.get_file_info(self._inside(path)).type == FileType.Directory)

    def size_of(self, path: str) -> int:
        size: int | None = self._system.get_file_info(self._inside(path)).size
        if size is None:
            raise FileNotFoundError(path)
        return size

    @contextmanager
    def open(self, path: str) -> Iterator[_ArrowFile]:
        with self._system.open_input_file(self._inside(path)) as opened:
            yield _ArrowFile(path, opened)

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._prefix).rstrip("/")


def arrow_file_system(path: str) -> tuple[Any, str]:
    """The one of pyarrow that has the path, and what it is called in there."""
    if "://" in path:
        return _opened_by_arrow(path) or _opened_by_fsspec(path)
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem(), os.path.abspath(path)


def _opened_by_arrow(uri: str) -> tuple[Any, str] | None:
    import pyarrow
    from pyarrow.fs import FileSystem as ArrowFileSystem

    try:
        system, inside = ArrowFileSystem.from_uri(uri)
    except pyarrow.ArrowInvalid:  # a scheme that it does not know
        return None
    return system, inside


def _opened_by_fsspec(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from fsspec.core import url_to_fs
    except ImportError as missing:
        raise ScanFailed(f"{uri}: pyarrow does not know this; install fsspec") from missing
    try:
        system, inside = url_to_fs(uri)
    except (ValueError, ImportError) as failure:
        raise ScanFailed(f"{uri}: {failure}") from failure
    return PyFileSystem(FSSpecHandler(system)), inside
