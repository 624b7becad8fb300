"""Files to be read: local ones, and those of any file system that pyarrow or fsspec opens.

A path with ``://`` in it is a URI.  pyarrow knows file, hdfs, s3 and gs; fsspec, if there is one,
knows the rest.  What a URI has behind a question mark is for its file system, and stays at the end
of the paths of all files below it: each of them can be opened by itself, in any process.

Local files are read with the system's own calls, into memory that is used again: never mapped,
since a log that is cut while it is read would kill the process.

A file that is being written to has the size that it had when it was opened.

Owner: a file, whoever opened it; a file system, this module: there is one for each server and its
settings, as making one may take connections and credentials.  Any thread may use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

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
    return ArrowFiles() if _is_uri(path) else LocalFiles()


def read_whole(system: FileSystem, path: str) -> bytes | None:
    """None if there is no such file."""
    try:
        with system.open(path) as file:
            content = bytearray(file.size_bytes)
            return bytes(content[: file.read_into(memoryview(content), 0)])
    except FileNotFoundError:
        return None


def joined(directory: str, name: str) -> str:
    place, query = _without_query(directory)
    return f"{place.rstrip('/')}/{name}{query}"


def parted(path: str) -> tuple[str, str]:
    """The directory that it is in, which is empty for a name alone, and its name."""
    place, query = _without_query(path)
    directory, slash, name = place.rpartition("/")
    return (directory or slash) + query, name


def renamed(path: str, name: str) -> str:
    """Another file in the same directory."""
    directory, _ = parted(path)
    return joined(directory, name) if directory else name


def trimmed(path: str) -> str:
    """Without slashes at its end."""
    place, query = _without_query(path)
    return (place.rstrip("/") or "/") + query


def _is_uri(path: str) -> bool:
    return "://" in path


def _without_query(path: str) -> tuple[str, str]:
    """What names the place, and the rest with its question mark; a local name may have one, too."""
    place, mark, query = path.partition("?") if _is_uri(path) else (path, "", "")
    return place, mark + query


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
    """Files by URIs, of whatever file system these are in."""

    def names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        system, inside = arrow_file_system(directory)
        return sorted(each.base_name for each in system.get_file_info(FileSelector(inside)))

    def is_directory(self, path: str) -> bool:
        from pyarrow.fs import FileType

        system, inside = arrow_file_system(path)
        return bool(system.get_file_info(inside).type == FileType.Directory)

    def size_of(self, path: str) -> int:
        system, inside = arrow_file_system(path)
        size: int | None = system.get_file_info(inside).size
        if size is None:
            raise FileNotFoundError(path)
        return size

    @contextmanager
    def open(self, path: str) -> Iterator[_ArrowFile]:
        system, inside = arrow_file_system(path)
        with system.open_input_file(inside) as opened:
            yield _ArrowFile(path, opened)


def arrow_file_system(path: str) -> tuple[Any, str]:
    """The one of pyarrow that has the path, and what it is called in there."""
    if not _is_uri(path):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), os.path.abspath(path)
    place, query = _without_query(path)
    scheme, _, rest = place.partition("://")
    server, slash, below = rest.rstrip("/").partition("/")
    top = _top_of(f"{scheme}://{server}/{query}")
    if top.is_of_arrow:
        below = unquote(below)
    return top.system, f"{top.inside}{slash}{below}" or "/"


class _Top(NamedTuple):
    """A file system, and what in there is called as the URI of its server is."""

    system: Any
    inside: str
    is_of_arrow: bool


@lru_cache(maxsize=64)
def _top_of(uri: str) -> _Top:
    found = _opened_by_arrow(uri)
    system, inside = found or _opened_by_fsspec(uri)
    return _Top(system, inside.rstrip("/"), is_of_arrow=found is not None)


def _opened_by_arrow(uri: str) -> tuple[Any, str] | None:
    import pyarrow
    from pyarrow.fs import FileSystem as ArrowFileSystem

    try:
        system, inside = ArrowFileSystem.from_uri(uri)
    except pyarrow.ArrowInvalid as wrong:
        if "nrecognized filesystem type" in str(wrong):
            return None
        raise ScanFailed(f"{uri}: {wrong}") from wrong
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
