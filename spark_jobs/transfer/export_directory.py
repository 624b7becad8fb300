"""Write access to directories: local ones, and those that pyarrow or fsspec opens.

A file that is written atomically exists with all of its bytes or not at all, also if two writers
write it at once.  Local files are flushed before they get their final names.  Until then their
names begin with a dot, and Spark and Arrow ignore such names.  Object stores are atomic themselves.

Owner: the caller that created it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import arrow_file_system, strip_trailing_slashes
from odradek.storage import files


class PendingFile(NamedTuple):
    """A file that is being written."""

    name: str  # the final name
    temporary_path: str  # the path until then
    stream: Any


class ExportDirectory:
    """A directory, which need not exist; names are relative to it and may contain slashes."""

    def __init__(self, path: str) -> None:
        self._file_system, inner_path = arrow_file_system(path)
        self._root = inner_path
        self._is_local = "://" not in path

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def list_names(self) -> list[str]:
        """Return the names of the direct entries; none if the directory does not exist."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._root, allow_not_found=True)
        return sorted(info.base_name for info in self._file_system.get_file_info(selector))

    def size_of(self, name: str) -> int | None:
        """Return the size of a file, or None if it does not exist."""
        size: int | None = self._file_system.get_file_info(self._path(name)).size
        return size

    def open(self, name: str) -> Any:
        """Open a file for reading at any position."""
        return self._file_system.open_input_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        if self.size_of(name) is None:
            return None
        with self.open(name) as file:
            content: bytes = file.read()
            return content

    def create_file(self, name: str) -> PendingFile:
        """Create a file to write and close; ``commit_file`` gives it its final name."""
        path = self._path(name)
        directory, _, file_name = path.rpartition("/")
        self._file_system.create_dir(directory, recursive=True)
        temporary_path = f"{directory}/.{file_name}.{uuid4().hex}" if self._is_local else path
        return PendingFile(
            name, temporary_path, self._file_system.open_output_stream(temporary_path)
        )

    def commit_file(self, file: PendingFile) -> None:
        """Flush a file that is written and closed, and rename it, so that it survives a crash."""
        if self._is_local:
            files.sync_path(Path(file.temporary_path))
            files.rename(Path(file.temporary_path), Path(self._path(file.name)))

    def write_atomically(self, name: str, content: bytes) -> None:
        if self._is_local:
            os.makedirs(self._root, exist_ok=True)
            files.replace(Path(self._path(name)), content)
            return
        with self.create_file(name).stream as stream:
            stream.write(content)

    def sync_directories(self, names: list[str]) -> None:
        """Flush the directories that contain these files, up to the root of the export."""
        if self._is_local:
            directories = {Path(self._path(name)).parent for name in names}
            ancestors = {parent for directory in directories for parent in directory.parents}
            inner_ancestors = {
                directory for directory in ancestors if directory.is_relative_to(self._root)
            }
            for directory in sorted(directories | inner_ancestors):
                files.sync_directory(directory)

    def list_files(self) -> list[str]:
        """Return the names of all files, including those in subdirectories."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._root, allow_not_found=True, recursive=True)
        return [
            info.path.removeprefix(f"{self._root}/")
            for info in self._file_system.get_file_info(selector)
            if info.type == FileType.File
        ]

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with its contents."""
        from pyarrow.fs import FileType

        path = self._path(name)
        if self._file_system.get_file_info(path).type == FileType.Directory:
            self._file_system.delete_dir(path)
        else:
            self._file_system.delete_file(path)


def absolute_path(path: str) -> str:
    """Return the path as a process in another working directory must name it."""
    if "://" in path:
        return strip_trailing_slashes(path)
    if not path:
        raise ScanFailed("the path of a directory must not be empty")
    return os.path.abspath(path)
