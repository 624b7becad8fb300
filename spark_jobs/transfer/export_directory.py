"""Directories that are written to: local ones, and those that pyarrow or fsspec opens.

A file written whole is there with all of its bytes or not at all, also if two write it at once.
Local files are synced before they have their names, and until then have one that begins with a dot,
which Spark and Arrow leave alone; object stores have that by themselves.

Owner: whoever made it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import arrow_file_system, trimmed
from odradek.storage import files


class NewFile(NamedTuple):
    """A file that is being written."""

    name: str  # that it is to have
    path: str  # that it has until then
    stream: Any


class Place:
    """A directory, which need not be there; names are relative to it and have slashes."""

    def __init__(self, path: str) -> None:
        self._system, inside = arrow_file_system(path)
        self._inside = inside
        self._is_local = "://" not in path

    def _path(self, name: str) -> str:
        return f"{self._inside}/{name}"

    def names(self) -> list[str]:
        """What is directly in there; nothing if it is not there."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._inside, allow_not_found=True)
        return sorted(each.base_name for each in self._system.get_file_info(selector))

    def size_of(self, name: str) -> int | None:
        """None if there is no such file."""
        size: int | None = self._system.get_file_info(self._path(name)).size
        return size

    def open(self, name: str) -> Any:
        """To be read, at any position."""
        return self._system.open_input_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        if self.size_of(name) is None:
            return None
        with self.open(name) as file:
            content: bytes = file.read()
            return content

    def create(self, name: str) -> NewFile:
        """To be written to and closed; ``keep`` gives it its name."""
        path = self._path(name)
        directory, _, own = path.rpartition("/")
        self._system.create_dir(directory, recursive=True)
        unfinished = f"{directory}/.{own}.{uuid4().hex}" if self._is_local else path
        return NewFile(name, unfinished, self._system.open_output_stream(unfinished))

    def keep(self, file: NewFile) -> None:
        """It is written and closed: see that a power cut does not undo it."""
        if self._is_local:
            files.sync_path(Path(file.path))
            files.rename(Path(file.path), Path(self._path(file.name)))

    def write_whole(self, name: str, content: bytes) -> None:
        if self._is_local:
            os.makedirs(self._inside, exist_ok=True)
            files.replace(Path(self._path(name)), content)
            return
        with self.create(name).stream as stream:
            stream.write(content)

    def keep_names(self, names: list[str]) -> None:
        """Those of the directories that these files are in."""
        if self._is_local:
            directories = {Path(self._path(name)).parent for name in names}
            above = {parent for each in directories for parent in each.parents}
            inside = {each for each in above if each.is_relative_to(self._inside)}
            for directory in sorted(directories | inside):
                files.sync_directory(directory)

    def files_below(self) -> list[str]:
        """The names of all files, those in directories below included."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._inside, allow_not_found=True, recursive=True)
        return [
            each.path.removeprefix(f"{self._inside}/")
            for each in self._system.get_file_info(selector)
            if each.type == FileType.File
        ]

    def remove(self, name: str) -> None:
        """A file, or a directory with all that is in it."""
        from pyarrow.fs import FileType

        path = self._path(name)
        if self._system.get_file_info(path).type == FileType.Directory:
            self._system.delete_dir(path)
        else:
            self._system.delete_file(path)


def absolute(path: str) -> str:
    """As a process in another directory has to call it."""
    if "://" in path:
        return trimmed(path)
    if not path:
        raise ScanFailed("a directory must have a name")
    return os.path.abspath(path)
