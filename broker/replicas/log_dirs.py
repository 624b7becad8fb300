"""What lies in a log directory: logs with their sizes, and copies on their way there.

A broker may have thousands of logs, and a log hundreds of segments, so others have their turn
between them.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

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


async def logs_in(
    directory: LogDirectory, logs: LogManager, wanted: Collection[TopicPartition] | None
) -> AsyncIterator[DescribedLog]:
    """Those of the wanted partitions; None wants all."""
    for count, hosted in enumerate(logs.logs.in_directory(directory), start=1):
        if count % _LOGS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if wanted is None or hosted.partition in wanted:
            yield _described(hosted, logs)


def _described(hosted: HostedLog, logs: LogManager) -> DescribedLog:
    log = hosted.log
    current = logs.logs.current.get(hosted.partition)
    lag = NO_LAG
    if current is not None and current.is_usable:
        behind = current.log.end_offset if hosted.is_future else current.log.high_watermark
        lag = behind - log.end_offset if hosted.is_future else max(0, behind - log.end_offset)
    return DescribedLog(hosted.partition, log.size_bytes, lag, hosted.is_future)
