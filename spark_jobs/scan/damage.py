"""Damage in a log, and how a scan handles it.

    PERMISSIVE      skip the damaged range and report it
    DROPMALFORMED   skip the damaged range
    FAILFAST        fail the scan

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ParseMode(StrEnum):
    """The parse modes of Spark's file sources."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


class ScanFailed(Exception):
    """The scan cannot start or continue.  The message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of a file that could not be read."""

    topic: str
    partition: int
    segment: str  # the path of the file
    position: int
    end_position: int
    first_offset: int  # the first offset that may be missing
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.segment}: bytes {self.position} to {self.end_position}, from offset "
            f"{self.first_offset} on: {self.reason}"
        )
