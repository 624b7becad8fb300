"""The file ``.kafka_cleanshutdown`` of a log directory: was everything synced and closed?

    {"version":0,"brokerEpoch":-1}

It is written last, when every log in the directory is closed, and removed before the first is
opened; its being there is the message, whatever it says.  The broker epoch is of interest to KRaft
(KIP-966) and -1 otherwise.

The order that keeps it true: logs synced, checkpoints written, then ``write``; ``remove``, which is
durable too, before anything changes.  A marker brought back by a power cut would hide a torn log.

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
    """A marker was found; ``broker_epoch`` is None if it does not say."""

    broker_epoch: int | None


def read(directory: Path) -> CleanShutdown | None:
    """None if the last shutdown was not clean, or there was none."""
    content = files.read(directory / FILE_NAME)
    return None if content is None else CleanShutdown(_parse_broker_epoch(content))


def write(directory: Path, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Durable when it returns."""
    files.replace(directory / FILE_NAME, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode())


def remove(directory: Path) -> None:
    """Gone for good when it returns, even if it was not there."""
    files.remove_durably(directory / FILE_NAME)


def _parse_broker_epoch(content: bytes) -> int | None:
    """Older Kafkas leave the file empty."""
    try:
        content_json = json.loads(content)
    except (ValueError, RecursionError):
        return None
    epoch = content_json.get("brokerEpoch") if isinstance(content_json, dict) else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None
