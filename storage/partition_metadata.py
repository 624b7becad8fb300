"""The file ``partition.metadata`` holds the topic id of a log.  Kafka: PartitionMetadataFile.

    version: 0
    topic_id: <22 characters of base64url>

A topic that is deleted and created again has the same name and another id.  The id distinguishes a
log left over from the first topic from a log of the second.  The second line has no newline.
Further lines of later versions are ignored, as in Kafka, so a directory survives a downgrade.

Owner: none; holds no state, any thread.
"""

import re
from pathlib import Path

from odradek.protocol.errors import InconsistentTopicId
from odradek.protocol.types import ZERO_UUID, Uuid
from odradek.storage import files
from odradek.storage.checkpoint import CorruptCheckpoint

FILE_NAME = "partition.metadata"

_VERSION = re.compile(rb"version:\s+[0-9]{1,10}")
_TOPIC_ID = re.compile(rb"topic_id:\s+([A-Za-z0-9_-]{22})")


def read(directory: Path) -> Uuid | None:
    """Return the topic id; None if there is no file, as for topics older than topic ids."""
    path = directory / FILE_NAME
    content = files.read(path)
    if content is None:
        return None
    lines = content.splitlines()
    if len(lines) < 2:
        raise CorruptCheckpoint(path, line=len(lines), reason="the file is cut short")
    if not _VERSION.fullmatch(lines[0]):
        raise CorruptCheckpoint(path, line=1, reason=f"not a version: {lines[0]!r}")
    match = _TOPIC_ID.fullmatch(lines[1])
    topic_id = Uuid.parse(match[1].decode()) if match else ZERO_UUID
    # The last character has unused bits, which no writer sets.
    if match is None or topic_id == ZERO_UUID or str(topic_id).encode() != match[1]:
        raise CorruptCheckpoint(path, line=2, reason=f"not a topic id: {lines[1]!r}")
    return topic_id


def write(directory: Path, topic_id: Uuid, *, is_synced: bool = True) -> None:
    """Write the id once.  If synced, it is durable on return; otherwise a crash may tear it."""
    assert topic_id != ZERO_UUID
    current = read(directory)
    if current is not None and current != topic_id:
        raise InconsistentTopicId(f"{directory} has topic id {current}, not {topic_id}")
    if current is None:
        write_file = files.replace if is_synced else files.write_unsynced
        write_file(directory / FILE_NAME, f"version: 0\ntopic_id: {topic_id}".encode())
