"""Describes the logs and future logs of a log directory for DescribeLogDirs.

A broker may have thousands of logs, and a log hundreds of segments, so the description yields to
the event loop between logs.  The locations of all logs are determined at one moment.  Otherwise a
log that moves meanwhile would be listed in two directories or in none.

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

INVALID_OFFSET_LAG = -1
#: Takes less than a millisecond for logs with a few segments.
_LOGS_PER_SLICE = 200


@dataclass(frozen=True, slots=True)
class LogDescription:
    """``offset_lag``: of a future log behind its log, of a log behind its high watermark."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogLocation(NamedTuple):
    """A log, and whether it was a future log when it was located."""

    hosted_log: HostedLog
    is_future: bool


def locate_logs(
    log_manager: LogManager, partitions: Collection[TopicPartition] | None
) -> dict[LogDirectory, list[LogLocation]]:
    """Return the logs of ``partitions`` by directory; None means all partitions."""
    return {
        directory: [
            LogLocation(hosted_log, hosted_log.is_future)
            for hosted_log in log_manager.logs.in_directory(directory)
            if partitions is None or hosted_log.partition in partitions
        ]
        for directory in log_manager.directories
    }


async def describe_logs(
    locations: Iterable[LogLocation], log_manager: LogManager
) -> AsyncIterator[LogDescription]:
    for count, location in enumerate(locations, start=1):
        if count % _LOGS_PER_SLICE == 0:
            await asyncio.sleep(0)
        yield _describe_log(location, log_manager)


def _describe_log(location: LogLocation, log_manager: LogManager) -> LogDescription:
    log, is_future = location.hosted_log.log, location.is_future
    current = log_manager.logs.current.get(log.partition)
    lag = INVALID_OFFSET_LAG
    if current is not None and current.is_usable:
        target_offset = current.log.log_end_offset if is_future else current.log.high_watermark
        lag = (
            target_offset - log.log_end_offset
            if is_future
            else max(0, target_offset - log.log_end_offset)
        )
    return LogDescription(log.partition, log.size_bytes, lag, is_future)
