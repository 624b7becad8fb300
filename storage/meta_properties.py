"""The file ``meta.properties`` of a log directory: whose is it?

    version=0
    broker.id=1
    cluster.id=<22 characters of base64url>

A broker that starts on the directory of another broker, or of another cluster, would mix two sets
of records, so it refuses to start.  What a missing line would say is not yet known, and is filled
in; other lines (``directory.id``) are kept.  Version 1 is KRaft's: such a directory has left
ZooKeeper for good.

Owner: none; holds no state, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odradek.config import properties
from odradek.storage import files

FILE_NAME = "meta.properties"

VERSION = "version"
BROKER_ID = "broker.id"
CLUSTER_ID = "cluster.id"

_BROKER_ID_MAX = 2**31 - 1


class DirectoryRefused(Exception):
    """A log directory that this broker must not touch; names the file and says why."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose a directory is; None is not yet known."""

    broker_id: int | None = None
    cluster_id: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)


def read(directory: Path) -> MetaProperties | None:
    """None if there is no file: the directory is new."""
    path = directory / FILE_NAME
    content = files.read(path)
    if content is None:
        return None
    try:
        found = dict(properties.parse(content.decode("iso-8859-1"), source=str(path)).texts)
    except properties.PropertiesError as malformed:
        raise DirectoryRefused(str(malformed)) from malformed
    _check_version(found.pop(VERSION, "0").strip(), path)
    broker_id = found.pop(BROKER_ID, None)
    return MetaProperties(
        broker_id=None if broker_id is None else _broker_id(broker_id, path),
        cluster_id=found.pop(CLUSTER_ID, None),
        others=found,
    )


def write(directory: Path, meta: MetaProperties) -> None:
    """Durable when it returns."""
    texts = {VERSION: "0"}
    if meta.broker_id is not None:
        texts[BROKER_ID] = str(meta.broker_id)
    if meta.cluster_id is not None:
        texts[CLUSTER_ID] = meta.cluster_id
    lines = [
        f"{_escaped(name)}={_escaped(text)}\n" for name, text in {**texts, **meta.others}.items()
    ]
    files.replace(directory / FILE_NAME, "".join(lines).encode("ascii"))


def check(
    found: Mapping[Path, MetaProperties], *, broker_id: int | None, cluster_id: str | None
) -> None:
    """Refuse directories of another broker or cluster; None expects no more than agreement.

    ``found`` holds what was read, by directory; one without the file is not in it.
    """
    _check_same(found, BROKER_ID, lambda meta: meta.broker_id, expected=broker_id)
    _check_same(found, CLUSTER_ID, lambda meta: meta.cluster_id, expected=cluster_id)


def _check_same(
    found: Mapping[Path, MetaProperties],
    name: str,
    of: Callable[[MetaProperties], int | str | None],
    *,
    expected: int | str | None,
) -> None:
    source = "this broker has"
    for directory, meta in found.items():
        value = of(meta)
        if value is None:
            continue
        if expected is None:
            expected, source = value, f"{directory / FILE_NAME} has"
        if value != expected:
            raise DirectoryRefused(
                f"{directory / FILE_NAME}: {name} is {value}, but {source} {expected}"
            )


def _check_version(version: str, path: Path) -> None:
    if version == "1":
        raise DirectoryRefused(f"{path}: version 1 belongs to KRaft, which knows no ZooKeeper")
    if version != "0":
        raise DirectoryRefused(f"{path}: version {version!r} is unknown")


def _broker_id(text: str, path: Path) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _BROKER_ID_MAX):
        raise DirectoryRefused(f"{path}: {BROKER_ID} is {text!r}, which is no broker's id")
    return int(text)


def _escaped(text: str) -> str:
    """As java.util.Properties.store writes it, and any reader of properties takes it."""
    units = text.encode("utf-16-be", "surrogatepass")
    characters = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(_escaped_character(character) for character in characters)


def _escaped_character(character: int) -> str:
    if chr(character) in " \\=:#!":
        return "\\" + chr(character)
    return chr(character) if 0x20 < character < 0x7F else f"\\u{character:04x}"
