"""What is damaged in a log, and what becomes of a scan that meets it.

    PERMISSIVE      it is left out and reported
    DROPMALFORMED   it is left out
    FAILFAST        the scan fails

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ParseMode(StrEnum):
    """The names that Spark's file sources have for it."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


class ScanFailed(Exception):
    """The scan cannot be done, or not go on; the message is one line for whoever asked for it."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of a file that nothing was read from."""

    topic: str
    partition: int
    segment: str  # the path of the file
    position: int
    end_position: int
    first_offset: int  # the first that may be missing
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.segment}: bytes {self.position} to {self.end_position}, from offset "
            f"{self.first_offset} on: {self.reason}"
        )
