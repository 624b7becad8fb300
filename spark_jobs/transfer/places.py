"""Directories that are written to: local ones, and those that pyarrow or fsspec opens.

A file written whole is there with all of its bytes or not at all.  Local files are synced before
they have their names; object stores have that by themselves.

Owner: whoever made it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import arrow_file_system
from odradek.storage import files


class Place:
    """A directory, which need not be there; names are relative to it and have slashes."""

    def __init__(self, path: str) -> None:
        self._system, inside = arrow_file_system(path)
        self._inside = inside.rstrip("/")
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

    def create(self, name: str) -> Any:
        """A stream to be written to; ``keep`` makes it last."""
        path = self._path(name)
        self._system.create_dir(path.rsplit("/", 1)[0], recursive=True)
        return self._system.open_output_stream(path)

    def keep(self, name: str) -> None:
        """It is written and closed: see that a power cut does not undo it."""
        if self._is_local:
            files.sync_path(Path(self._path(name)))

    def write_whole(self, name: str, content: bytes) -> None:
        if self._is_local:
            os.makedirs(self._inside, exist_ok=True)
            files.replace(Path(self._path(name)), content)
            return
        with self.create(name) as stream:
            stream.write(content)

    def keep_names(self, names: list[str]) -> None:
        """Those of the directories that these files are in."""
        if self._is_local:
            directories = {Path(self._path(name)).parent for name in names}
            above = {parent for each in directories for parent in each.parents}
            inside = {each for each in above if each.is_relative_to(self._inside)}
            for directory in sorted(directories | inside):
                files.sync_directory(directory)

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
        return path.rstrip("/")
    if not path:
        raise ScanFailed("a directory must have a name")
    return os.path.abspath(path)
