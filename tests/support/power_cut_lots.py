"""What a power cut leaves of changes that were not synced.

Of a file: what it held at its last fsync.  Of the changes since, each write is there whole, torn at
any byte (its beginning or its end is there) or not at all; each change of length happened or not;
the file may have grown without the bytes, which are then zeros; each 512-byte sector that was
written through a memory map is there or not.

Of a directory: the names at its last sync.  Each name made, renamed or removed since is so or not.
A rename is one change: a file has the old name or the new one, never both.

Cuts differ in kind, as file systems and moments do: in the share of the changes that happened, from
none to all, and in whether the names are those of a journal's beginning (ext4, xfs) or any
selection of the changes (btrfs).

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
SHARES_KEPT = (0.0, 0.2, 0.5, 0.8, 1.0)


class Written(NamedTuple):
    position: int
    content: bytes


class Resized(NamedTuple):
    length: int


@dataclass(eq=False)
class WatchedFile:
    """A file by whatever name: what is safe, and what was changed since."""

    synced: bytes = b""
    changes: list[Written | Resized] = field(default_factory=list)
    #: What it held when it lost its last name.
    last_seen: bytes | None = None


class Named(NamedTuple):
    """A name was made, or a file came to it from another, replacing what had it."""

    name: str
    node: WatchedFile | WatchedDirectory


class Removed(NamedTuple):
    name: str
    node: WatchedFile | WatchedDirectory


@dataclass(eq=False)
class WatchedDirectory:
    """A directory by whatever name: what is in it, what of it is safe, and what changed since."""

    names: dict[str, WatchedFile | WatchedDirectory] = field(default_factory=dict)
    synced: dict[str, WatchedFile | WatchedDirectory] = field(default_factory=dict)
    changes: list[Named | Removed] = field(default_factory=list)

    def change(self, change: Named | Removed) -> None:
        self.names = with_changes(self.names, [change])
        self.changes.append(change)


def with_changes(
    names: Mapping[str, WatchedFile | WatchedDirectory], changes: Sequence[Named | Removed]
) -> dict[str, WatchedFile | WatchedDirectory]:
    after = dict(names)
    for change in changes:
        if isinstance(change, Named):
            after = {name: node for name, node in after.items() if node is not change.node}
            after[change.name] = change.node
        elif after.get(change.name) is change.node:
            del after[change.name]
    return after


class Lots:
    """The kind of one cut, and the draws that it takes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kept = random.choice(SHARES_KEPT)
        self._in_order = random.random() < 0.5

    def __str__(self) -> str:
        names = "in order" if self._in_order else "in any selection"
        return f"a cut that keeps {self._kept:.0%} of what was not synced, names {names}"

    def rebuild(
        self,
        tree: WatchedDirectory,
        directory: Path,
        found: Mapping[WatchedFile, bytes],
        story: list[str],
    ) -> None:
        """Make the directory as the cut left it; ``found`` is what files with a name held."""
        directory.mkdir()
        names = with_changes(tree.synced, self._happened(tree.changes))
        if tree.changes:
            story.append(f"{directory}: {', '.join(sorted(names))} of {', '.join(tree.names)}")
        for name, node in names.items():
            path = directory / name
            if isinstance(node, WatchedDirectory):
                self.rebuild(node, path, found, story)
                continue
            before = found.get(node, node.last_seen)
            assert before is not None, path
            path.write_bytes(self.content(node, before))
            if path.read_bytes() != before:
                story.append(f"{path}: {path.stat().st_size} bytes that are not what it held")

    def content(self, file: WatchedFile, before: bytes) -> bytes:
        """``before`` is what every process saw."""
        content, seen = bytearray(file.synced), bytearray(file.synced)
        longest = len(seen)
        for change in file.changes:
            apply(seen, change)
            longest = max(longest, len(seen))
            for part in self._parts(change):
                apply(content, part)
        if len(content) < longest and self._happens() and self._random.random() < 0.3:
            apply(content, Resized(self._random.randint(len(content), longest)))
        for at in mapped_sectors(bytes(seen), before):
            if self._happens() and at < len(content):
                end = min(at + SECTOR_BYTES, len(content), len(before))
                content[at:end] = before[at:end]
        return bytes(content)

    def _happens(self) -> bool:
        return self._random.random() < self._kept

    def _happened(self, changes: Sequence[Named | Removed]) -> list[Named | Removed]:
        if not self._in_order:
            return [change for change in changes if self._happens()]
        if self._kept in (0.0, 1.0):
            return list(changes) if self._kept else []
        return list(changes[: self._random.randint(0, len(changes))])

    def _parts(self, change: Written | Resized) -> Iterator[Written | Resized]:
        if not self._happens():
            return
        if isinstance(change, Resized) or self._kept == 1.0 or self._random.random() < 0.5:
            yield change
            return
        cut = self._random.randint(0, len(change.content))
        if self._random.random() < 0.7:
            yield Written(change.position, change.content[:cut])
        else:
            yield Written(change.position + cut, change.content[cut:])


def apply(content: bytearray, change: Written | Resized) -> None:
    if isinstance(change, Resized):
        del content[change.length :]
        content.extend(bytes(change.length - len(content)))
    elif change.content:
        end = change.position + len(change.content)
        content.extend(bytes(max(0, end - len(content))))
        content[change.position : end] = change.content


def mapped_sectors(replayed: bytes, before: bytes) -> Iterator[int]:
    """Where sectors begin that differ from what the watched calls explain."""
    for at in range(0, len(before), SECTOR_BYTES):
        if replayed[at : at + SECTOR_BYTES] != before[at : at + SECTOR_BYTES]:
            yield at
