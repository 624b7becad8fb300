"""Read access to files: local ones, and those of any file system that pyarrow or fsspec opens.

A path that contains ``://`` is a URI.  pyarrow supports file, hdfs, s3 and gs; fsspec, if
installed, supports the rest.  The query of a URI (after the question mark) configures its file
system.  It stays at the end of the paths of all files below the URI, so that each of them can be
opened independently, in any process.

Local files are read with preadv into memory that is reused.  They are never mapped: if a mapped log
is truncated while it is read, the process is killed.

A file that is being written keeps the size that it had when it was opened.

Owner: a file belongs to the caller that opened it.  File systems belong to this module, which keeps
one for each server and its settings, because creating one may require connections and credentials.
Any thread may use it.
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
    """An open file; ``path`` is its name in reports."""

    path: str
    size_bytes: int
    chunk_bytes: int  # the preferred size of one read

    def read_into(self, target: memoryview, position: int) -> int:
        """Return the number of bytes read; fewer than the target's size only at end of file."""
        ...


class FileSystem(Protocol):
    """The file system operations of a scan.  A missing file raises FileNotFoundError."""

    def list_names(self, directory: str) -> list[str]: ...

    def is_directory(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def open(self, path: str) -> Any: ...  # a context manager of a File


def file_system_for(path: str) -> FileSystem:
    """Return the file system that holds ``path`` and everything below it."""
    return ArrowFiles() if _is_uri(path) else LocalFiles()


def read_file(file_system: FileSystem, path: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    try:
        with file_system.open(path) as file:
            content = bytearray(file.size_bytes)
            return bytes(content[: file.read_into(memoryview(content), 0)])
    except FileNotFoundError:
        return None


def join_path(directory: str, name: str) -> str:
    location, query = _split_query(directory)
    return f"{location.rstrip('/')}/{name}{query}"


def split_path(path: str) -> tuple[str, str]:
    """Return the parent directory, which is empty for a bare name, and the file name."""
    location, query = _split_query(path)
    directory, slash, name = location.rpartition("/")
    return (directory or slash) + query, name


def with_file_name(path: str, name: str) -> str:
    """Return the path of another file in the same directory."""
    directory, _ = split_path(path)
    return join_path(directory, name) if directory else name


def strip_trailing_slashes(path: str) -> str:
    location, query = _split_query(path)
    return (location.rstrip("/") or "/") + query


def _is_uri(path: str) -> bool:
    return "://" in path


def _split_query(path: str) -> tuple[str, str]:
    """Split a URI before its question mark.  A local name may contain one, so it is not split."""
    location, mark, query = path.partition("?") if _is_uri(path) else (path, "", "")
    return location, mark + query


#: Small enough to be in the processor's cache still when the checksums are computed.
LOCAL_CHUNK_BYTES = 256 * 1024
#: A request to an object store has a high fixed cost, whatever its size.
REMOTE_CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class _LocalFile:
    path: str
    size_bytes: int
    descriptor: int
    chunk_bytes: int

    def read_into(self, target: memoryview, position: int) -> int:
        done = 0
        while done < len(target):
            count = os.preadv(self.descriptor, [target[done:]], position + done)
            if count == 0:
                break
            done += count
        return done


class LocalFiles:
    """The local file system."""

    def list_names(self, directory: str) -> list[str]:
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
                path, os.fstat(descriptor).st_size, descriptor, chunk_bytes=LOCAL_CHUNK_BYTES
            )
        finally:
            os.close(descriptor)


class _ArrowFile:
    def __init__(self, path: str, input_file: Any) -> None:
        self.path = path
        self.size_bytes: int = input_file.size()
        self.chunk_bytes = REMOTE_CHUNK_BYTES
        self._input_file = input_file

    def read_into(self, target: memoryview, position: int) -> int:
        length = max(0, min(len(target), self.size_bytes - position))
        content = self._input_file.read_at(length, position)
        target[: len(content)] = content
        return len(content)


class ArrowFiles:
    """Files named by URIs, on the file systems of pyarrow and fsspec."""

    def list_names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        file_system, inner_path = arrow_file_system(directory)
        return sorted(
            info.base_name for info in file_system.get_file_info(FileSelector(inner_path))
        )

    def is_directory(self, path: str) -> bool:
        from pyarrow.fs import FileType

        file_system, inner_path = arrow_file_system(path)
        return bool(file_system.get_file_info(inner_path).type == FileType.Directory)

    def size_of(self, path: str) -> int:
        file_system, inner_path = arrow_file_system(path)
        size: int | None = file_system.get_file_info(inner_path).size
        if size is None:
            raise FileNotFoundError(path)
        return size

    @contextmanager
    def open(self, path: str) -> Iterator[_ArrowFile]:
        file_system, inner_path = arrow_file_system(path)
        with file_system.open_input_file(inner_path) as input_file:
            yield _ArrowFile(path, input_file)


def arrow_file_system(path: str) -> tuple[Any, str]:
    """Return the pyarrow file system that holds the path, and the path inside it."""
    if not _is_uri(path):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), os.path.abspath(path)
    location, query = _split_query(path)
    scheme, _, remainder = location.partition("://")
    server, slash, relative_path = remainder.rstrip("/").partition("/")
    root = _file_system_root(f"{scheme}://{server}/{query}")
    if root.is_arrow_native:
        relative_path = unquote(relative_path)
    return root.file_system, f"{root.root_path}{slash}{relative_path}" or "/"


class _FileSystemRoot(NamedTuple):
    """A file system, and the path inside it that the URI of its server names."""

    file_system: Any
    root_path: str
    is_arrow_native: bool


@lru_cache(maxsize=64)
def _file_system_root(uri: str) -> _FileSystemRoot:
    arrow_native = _open_with_arrow(uri)
    file_system, root_path = arrow_native or _open_with_fsspec(uri)
    return _FileSystemRoot(
        file_system, root_path.rstrip("/"), is_arrow_native=arrow_native is not None
    )


def _open_with_arrow(uri: str) -> tuple[Any, str] | None:
    import pyarrow
    from pyarrow.fs import FileSystem as ArrowFileSystem

    try:
        file_system, inner_path = ArrowFileSystem.from_uri(uri)
    except pyarrow.ArrowInvalid as error:
        if "nrecognized filesystem type" in str(error):
            return None
        raise ScanFailed(f"{uri}: {error}") from error
    return file_system, inner_path


def _open_with_fsspec(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from fsspec.core import url_to_fs
    except ImportError as import_error:
        raise ScanFailed(
            f"{uri}: pyarrow does not support this scheme; install fsspec"
        ) from import_error
    try:
        file_system, inner_path = url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise ScanFailed(f"{uri}: {error}") from error
    return PyFileSystem(FSSpecHandler(file_system)), inner_path
