"""A disk that forgets what was not synced, to be put in the place of ``files.system``.

    with PowerCut(tmp_path, seed) as disk:       every change below tmp_path is watched
        ...                                      the code under test
        disk.cut()                               the tree is now as a power cut may leave it
        ...                                      recovery, watched as well: cut again at will

What a cut leaves of the changes since the last syncs is drawn by lots: see power_cut_lots.py.

``off_at=n`` lets the power go just before the n-th change, counted from 1: that change and all
later ones raise PowerIsOff, which nobody catches, until ``cut`` brings the power back.  ``changes``
counts them, so that a first run without ``off_at`` tells how many there are.

All is drawn from the seed; ``str(disk)`` tells what the last cut did.  What a file holds when the
watching begins counts as synced.  Only calls through ``files.system`` are watched; a name made past
it makes the cut fail.  Nothing is really synced: that would only take time.

Owner: the test's thread.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from odradek.storage import files
from tests.support.power_cut_lots import (
    Lots,
    Named,
    Removed,
    Resized,
    WatchedDirectory,
    WatchedFile,
    Written,
)


class PowerIsOff(BaseException):
    """The computer is off; no code runs on it that could catch this."""


class PowerCut:
    """The calls of ``files.SystemCalls`` on one tree, remembered."""

    def __init__(self, root: Path, seed: int, *, off_at: int | None = None) -> None:
        self.root = root
        self.seed = seed
        self.changes = 0
        self.story: list[str] = []
        self._off_at = off_at
        self._random = Random(seed)
        # None: opened before the last cut.
        self._descriptors: dict[int, WatchedFile | None] = {}
        self._replaced: files.SystemCalls | None = None
        self._tree = found_in(root)

    def __repr__(self) -> str:
        return f"PowerCut(seed={self.seed}, off_at={self._off_at})"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.story])

    def __enter__(self) -> Self:
        assert self._replaced is None, "watching already"
        self._replaced, files.system = files.system, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whoever left something open still closes it, be it after the end of the watching."""
        files.system, self._replaced = self._replaced, None

    def settle(self) -> None:
        """Everything on the disk now counts as synced; what is open must be opened again."""
        self._tree = found_in(self.root)
        self._descriptors = dict.fromkeys(self._descriptors)

    def cut(self) -> list[str]:
        """Off and on again; what it did, line by line.  Whatever was open leads nowhere now."""
        lots = Lots(self._random)
        self.story = [f"{lots}"]
        found = current_contents(self._tree, self.root)
        shutil.rmtree(self.root)
        # New files under the old names: a map or descriptor from before cannot reach them.
        lots.rebuild(self._tree, self.root, found, self.story)
        self.settle()
        self._off_at = None
        return self.story

    def open(self, path: files.FilePath, flags: int, mode: int = 0o777) -> int:
        parent, name = self._place_of(path)
        node = parent.names.get(name)
        assert (node is not None) == os.path.exists(path), f"{path} came or went past files.system"
        makes, cuts = node is None and flags & os.O_CREAT, node is not None and flags & os.O_TRUNC
        if makes or cuts:
            self._count_change()
        # Every descriptor can be read from, because fsync looks at what is there.
        readable = flags & ~os.O_WRONLY | os.O_RDWR if flags & os.O_WRONLY else flags
        descriptor = os.open(path, readable, mode)
        if makes:
            node = WatchedFile()
            parent.change(Named(name, node))
        elif cuts:
            node.changes.append(Resized(0))
        assert isinstance(node, WatchedFile), f"{path} is a directory"
        self._descriptors[descriptor] = node
        return descriptor

    def close(self, descriptor: int) -> None:
        self._descriptors.pop(descriptor, None)
        os.close(descriptor)

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        self._file(descriptor)
        return os.pread(descriptor, length, position)

    def pwritev(self, descriptor: int, buffers: list[files.Buffer], position: int) -> int:
        file = self._file(descriptor)
        self._count_change()
        written = os.pwritev(descriptor, buffers, position)
        file.changes.append(Written(position, b"".join(buffers)[:written]))
        return written

    def ftruncate(self, descriptor: int, length: int) -> None:
        file = self._file(descriptor)
        self._count_change()
        os.ftruncate(descriptor, length)
        file.changes.append(Resized(length))

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        file = self._file(descriptor)
        self._count_change()
        before = os.fstat(descriptor).st_size
        files.SystemCalls.fallocate(descriptor, position, length)
        if position + length > before:
            file.changes.append(Resized(position + length))

    def fsync(self, descriptor: int) -> None:
        file = self._file(descriptor)
        self._count_change()
        file.synced = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        file.changes.clear()
        if file.last_seen is not None:
            file.last_seen = file.synced

    def rename(self, source: files.FilePath, target: files.FilePath) -> None:
        parent, name = self._place_of(source)
        new_parent, new_name = self._place_of(target)
        assert parent is new_parent, "only renames within a directory are modelled"
        self._count_change()
        self._note_last_content(parent.names.get(new_name), target)
        os.rename(source, target)
        parent.change(Named(new_name, parent.names[name]))

    def unlink(self, path: files.FilePath) -> None:
        parent, name = self._place_of(path)
        self._count_change()
        self._note_last_content(parent.names.get(name), path)
        os.unlink(path)
        parent.change(Removed(name, parent.names[name]))

    def mkdir(self, path: files.FilePath, mode: int = 0o777) -> None:
        parent, name = self._place_of(path)
        self._count_change()
        os.mkdir(path, mode)
        parent.change(Named(name, WatchedDirectory()))

    def rmdir(self, path: files.FilePath) -> None:
        parent, name = self._place_of(path)
        self._count_change()
        os.rmdir(path)
        parent.change(Removed(name, parent.names[name]))

    def sync_directory(self, path: files.FilePath) -> None:
        self._count_change()
        directory = self._directory(path)
        directory.synced = dict(directory.names)
        directory.changes.clear()

    def listdir(self, path: files.FilePath) -> list[str]:
        return os.listdir(path)

    def utime(self, path: files.FilePath, *, ns: tuple[int, int]) -> None:
        self._count_change()
        os.utime(path, ns=ns)

    def _count_change(self) -> None:
        self.changes += 1
        if self._off_at is not None and self.changes >= self._off_at:
            raise PowerIsOff(repr(self))

    def _file(self, descriptor: int) -> WatchedFile:
        file = self._descriptors.get(descriptor)
        assert file is not None, "a file is used that was opened before the power cut"
        return file

    def _place_of(self, path: files.FilePath) -> tuple[WatchedDirectory, str]:
        directory, name = os.path.split(path)
        return self._directory(directory), name

    def _directory(self, path: files.FilePath) -> WatchedDirectory:
        node = self._tree
        for name in Path(path).relative_to(self.root).parts:
            found = node.names.get(name)
            if not isinstance(found, WatchedDirectory):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            node = found
        return node

    def _note_last_content(
        self, node: WatchedFile | WatchedDirectory | None, path: files.FilePath
    ) -> None:
        if isinstance(node, WatchedFile):
            node.last_seen = Path(path).read_bytes()


def found_in(directory: Path) -> WatchedDirectory:
    """A tree of which all is synced."""
    names = {
        path.name: found_in(path) if path.is_dir() else WatchedFile(path.read_bytes())
        for path in directory.iterdir()
    }
    return WatchedDirectory(names, dict(names))


def current_contents(tree: WatchedDirectory, directory: Path) -> dict[WatchedFile, bytes]:
    """What every file that has a name holds now, written through a map or not."""
    unwatched = {path.name for path in directory.iterdir()} ^ set(tree.names)
    assert not unwatched, f"{unwatched} in {directory} came or went past files.system"
    contents: dict[WatchedFile, bytes] = {}
    for name, node in tree.names.items():
        if isinstance(node, WatchedFile):
            contents[node] = (directory / name).read_bytes()
        else:
            contents |= current_contents(node, directory / name)
    return contents
