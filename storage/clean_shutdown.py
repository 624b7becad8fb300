"""The file ``.kafka_cleanshutdown`` marks a log directory whose logs were flushed and closed.

    {"version":0,"brokerEpoch":-1}

Kafka: CleanShutdownFileHandler.  The broker writes the file last, after it has closed every log in
the directory, and removes it before it opens the first log.  The existence of the file counts, not
its content.  KRaft uses the broker epoch (KIP-966); otherwise it is -1.

Crash order: flush the logs, write the checkpoints, then ``write``.  Before any change, ``remove``,
which is durable too.  A marker that a power cut brings back would hide a torn log.

Owner: none; holds no state, any thread.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from odradek.storage import files

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The marker exists; ``broker_epoch`` is None if the file does not contain it."""

    broker_epoch: int | None


def read(directory: Path) -> CleanShutdown | None:
    """Return None if the last shutdown was not clean, or if the directory is new."""
    content = files.read(directory / FILE_NAME)
    return None if content is None else CleanShutdown(_parse_broker_epoch(content))


def write(directory: Path, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Write the marker.  It is durable when this returns."""
    files.replace(directory / FILE_NAME, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode())


def remove(directory: Path) -> None:
    """Remove the marker, if it exists.  The removal is durable when this returns."""
    files.remove_durably(directory / FILE_NAME)


def _parse_broker_epoch(content: bytes) -> int | None:
    """Return None for an empty file, which older Kafka versions write."""
    try:
        content_json = json.loads(content)
    except (ValueError, RecursionError):
        return None
    epoch = content_json.get("brokerEpoch") if isinstance(content_json, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None
