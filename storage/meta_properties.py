"""The file ``meta.properties`` names the broker and the cluster that own a log directory.

    version=0
    broker.id=1
    cluster.id=<22 characters of base64url>

A broker that starts on the directory of another broker or cluster would mix two sets of records, so
it refuses to start.  A missing line means that the value is not yet known; it is added later.
Other lines (``directory.id``) are kept.  Version 1 belongs to KRaft: such a directory cannot go
back to ZooKeeper.

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


class InvalidLogDirectory(Exception):
    """This broker must not use the log directory.  The message has the file and the reason."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a log directory; None means not yet known."""

    broker_id: int | None = None
    cluster_id: str | None = None
    other_properties: Mapping[str, str] = field(default_factory=dict)


def read(directory: Path) -> MetaProperties | None:
    """Return None if there is no file: the directory is new."""
    path = directory / FILE_NAME
    content = files.read(path)
    if content is None:
        return None
    try:
        values = dict(properties.parse(content.decode("iso-8859-1"), source=str(path)).values)
    except properties.PropertiesError as malformed:
        raise InvalidLogDirectory(str(malformed)) from malformed
    _check_version(values.pop(VERSION, "0").strip(), path)
    broker_id = values.pop(BROKER_ID, None)
    return MetaProperties(
        broker_id=None if broker_id is None else _parse_broker_id(broker_id, path),
        cluster_id=values.pop(CLUSTER_ID, None),
        other_properties=values,
    )


def write(directory: Path, meta_properties: MetaProperties) -> None:
    """Replace the file.  The content is durable when this returns."""
    texts = {VERSION: "0"}
    if meta_properties.broker_id is not None:
        texts[BROKER_ID] = str(meta_properties.broker_id)
    if meta_properties.cluster_id is not None:
        texts[CLUSTER_ID] = meta_properties.cluster_id
    lines = [
        f"{_escape(name)}={_escape(text)}\n"
        for name, text in {**texts, **meta_properties.other_properties}.items()
    ]
    files.replace(directory / FILE_NAME, "".join(lines).encode("ascii"))


def verify(
    by_directory: Mapping[Path, MetaProperties], *, broker_id: int | None, cluster_id: str | None
) -> None:
    """Raise InvalidLogDirectory if a directory belongs to another broker or cluster.

    If an expected value is None, the directories must only agree with each other.
    ``by_directory`` has the directories that have the file.
    """
    _verify_same(by_directory, BROKER_ID, lambda meta: meta.broker_id, expected=broker_id)
    _verify_same(by_directory, CLUSTER_ID, lambda meta: meta.cluster_id, expected=cluster_id)


def _verify_same(
    by_directory: Mapping[Path, MetaProperties],
    name: str,
    get_value: Callable[[MetaProperties], int | str | None],
    *,
    expected: int | str | None,
) -> None:
    source = "this broker has"
    for directory, meta in by_directory.items():
        value = get_value(meta)
        if value is None:
            continue
        if expected is None:
            expected, source = value, f"{directory / FILE_NAME} has"
        if value != expected:
            raise InvalidLogDirectory(
                f"{directory / FILE_NAME}: {name} is {value}, but {source} {expected}"
            )


def _check_version(version: str, path: Path) -> None:
    if version == "1":
        raise InvalidLogDirectory(
            f"{path}: version 1 belongs to KRaft, which does not use ZooKeeper"
        )
    if version != "0":
        raise InvalidLogDirectory(f"{path}: version {version!r} is unknown")


def _parse_broker_id(text: str, path: Path) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _BROKER_ID_MAX):
        raise InvalidLogDirectory(
            f"{path}: {BROKER_ID} is {text!r}, which is not a valid broker id"
        )
    return int(text)


def _escape(text: str) -> str:
    """Escape like java.util.Properties.store."""
    units = text.encode("utf-16-be", "surrogatepass")
    characters = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(_escape_character(character) for character in characters)


def _escape_character(character: int) -> str:
    if chr(character) in " \\=:#!":
        return "\\" + chr(character)
    return chr(character) if 0x20 < character < 0x7F else f"\\u{character:04x}"
