"""What ``inter.broker.protocol.version`` means for the controller.  Kafka: MetadataVersion.

During a rolling upgrade all brokers use the protocol of the old version until every broker has the
new code.  The setting names a release, such as ``3.9``, or an internal version of a release, such
as ``2.8-IV0``.  A release means its last internal version.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: release -> its last internal version
LAST_INTERNAL_VERSIONS: Mapping[tuple[int, ...], int] = {
    (0, 8, 0): 0,
    (0, 8, 1): 0,
    (0, 8, 2): 0,
    (0, 9, 0): 0,
    (0, 10, 0): 1,
    (0, 10, 1): 2,
    (0, 10, 2): 0,
    (0, 11, 0): 2,
    (1, 0): 0,
    (1, 1): 0,
    (2, 0): 1,
    (2, 1): 2,
    (2, 2): 1,
    (2, 3): 1,
    (2, 4): 1,
    (2, 5): 0,
    (2, 6): 0,
    (2, 7): 2,
    (2, 8): 1,
    (3, 0): 1,
    (3, 1): 0,
    (3, 2): 0,
    (3, 3): 3,
    (3, 4): 0,
    (3, 5): 2,
    (3, 6): 2,
    (3, 7): 4,
    (3, 8): 0,
    (3, 9): 0,
}
#: Earlier releases have no internal versions.
_FIRST_WITH_INTERNAL_VERSIONS = (0, 10, 0)
_VERSION_PATTERN = re.compile(r"(0(?:\.\d+){2}|[1-9]\d*\.\d+)(?:-IV(\d+)|(?:\.\d+)*)", re.ASCII)


class MetadataVersion(NamedTuple):
    """An internal version of a release; the order is the order of publication."""

    release: tuple[int, ...]
    internal_version: int

    @classmethod
    def parse(cls, text: str) -> MetadataVersion:
        """Raises ValueError for an unknown version.  ``3.9.1`` means ``3.9``."""
        match = _VERSION_PATTERN.fullmatch(text)
        release = tuple(map(int, match[1].split("."))) if match else ()
        if not match or release not in LAST_INTERNAL_VERSIONS:
            raise ValueError(f"{text!r} is not an inter-broker protocol version")
        last = LAST_INTERNAL_VERSIONS[release]
        step = last if match[2] is None else int(match[2])
        if step > last or (match[2] is not None and release < _FIRST_WITH_INTERNAL_VERSIONS):
            raise ValueError(f"{text!r} is not an inter-broker protocol version")
        return cls(release, step)

    def __str__(self) -> str:
        release = ".".join(map(str, self.release))
        return (
            release
            if self.release < _FIRST_WITH_INTERNAL_VERSIONS
            else f"{release}-IV{self.internal_version}"
        )

    @property
    def is_alter_partition_supported(self) -> bool:
        """Leaders change the ISR through the controller; before, they wrote it to the store."""
        return self >= ((2, 7), 2)

    @property
    def is_topic_ids_supported(self) -> bool:
        return self >= ((2, 8), 0)

    @property
    def is_allocate_producer_ids_supported(self) -> bool:
        """Brokers get producer ids from the controller; before, they claimed them in the store."""
        return self >= ((3, 0), 0)

    @property
    def is_leader_recovery_supported(self) -> bool:
        """Whether a partition can be marked as recovering from an unclean election (KIP-704)."""
        return self >= ((3, 2), 0)


LATEST = MetadataVersion((3, 9), 0)

VersionThreshold = tuple[tuple[tuple[int, ...], int], int]

#: (first internal version that supports it, version of the request), newest first
LEADER_AND_ISR_VERSIONS: tuple[VersionThreshold, ...] = (
    (((3, 4), 0), 7),
    (((3, 2), 0), 6),
    (((2, 8), 1), 5),
    (((2, 4), 1), 4),
    (((2, 4), 0), 3),
    (((2, 2), 0), 2),
    (((1, 0), 0), 1),
)
UPDATE_METADATA_VERSIONS: tuple[VersionThreshold, ...] = (
    (((3, 4), 0), 8),
    (((2, 8), 1), 7),
    (((2, 4), 1), 6),
    (((2, 2), 0), 5),
    (((1, 0), 0), 4),
    (((0, 10, 2), 0), 3),
    (((0, 10, 0), 1), 2),
    (((0, 9, 0), 0), 1),
)
STOP_REPLICA_VERSIONS: tuple[VersionThreshold, ...] = (
    (((3, 4), 0), 4),
    (((2, 6), 0), 3),
    (((2, 4), 1), 2),
    (((2, 2), 0), 1),
)


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """The versions in which the controller sends its requests."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @classmethod
    def for_metadata_version(cls, metadata_version: MetadataVersion) -> RequestVersions:
        return cls(
            leader_and_isr=_request_version(LEADER_AND_ISR_VERSIONS, metadata_version),
            update_metadata=_request_version(UPDATE_METADATA_VERSIONS, metadata_version),
            stop_replica=_request_version(STOP_REPLICA_VERSIONS, metadata_version),
        )


def _request_version(
    thresholds: tuple[VersionThreshold, ...], metadata_version: MetadataVersion
) -> int:
    return next((version for since, version in thresholds if metadata_version >= since), 0)
