"""What lies in a log directory: logs with their sizes, and copies on their way there.

A broker may have thousands of logs, and a log hundreds of segments, so others have their turn
between them.  But where each lies is found out at one moment, or one that moves meanwhile would be
seen in two places or in none.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_manager import LogManager

NO_LAG = -1
#: Takes less than a millisecond for logs of a few segments.
_LOGS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class DescribedLog:
    """``offset_lag`` is how far a copy is behind its log, and a log behind its high watermark."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class Place(NamedTuple):
    """A log, and whether it was on its way then."""

    hosted: HostedLog
    is_future: bool


def places(
    logs: LogManager, wanted: Collection[TopicPartition] | None
) -> dict[LogDirectory, list[Place]]:
    """Of the wanted partitions, in each directory; None wants all."""
    return {
        directory: [
            Place(hosted, hosted.is_future)
            for hosted in logs.logs.in_directory(directory)
            if wanted is None or hosted.partition in wanted
        ]
        for directory in logs.directories
    }


async def described(found: Iterable[Place], logs: LogManager) -> AsyncIterator[DescribedLog]:
    for count, place in enumerate(found, start=1):
        if count % _LOGS_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield _described(place, logs)


def _described(place: Place, logs: LogManager) -> DescribedLog:
    log, is_future = place.hosted.log, place.is_future
    current = logs.logs.current.get(log.partition)
    lag = NO_LAG
    if current is not None and current.is_usable:
        behind = current.log.end_offset if is_future else current.log.high_watermark
        lag = behind - log.end_offset if is_future else max(0, behind - log.end_offset)
    return DescribedLog(log.partition, log.size_bytes, lag, is_future)
