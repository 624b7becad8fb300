"""DescribeLogDirs: what lies in the log directories of this broker, and how much space is left.

A directory that has failed is told with its error, and without what was in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.replicas.log_dirs import DescribedLog, Place, described, places
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.errors import KafkaError, KafkaStorageError, code_of
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.directory import DirectorySpace, LogDirectory
from odradek.storage.manager.log_manager import LogManager

_FIRST_VERSION_WITH_SPACE = 4

Directory = DescribeLogDirsResponse.Directory
Topic = Directory.Topic


class Disk(Protocol):
    """Where calls are made that may sleep in the kernel."""

    def run_in(
        self, directory: LogDirectory, call: Callable[[], DirectorySpace], /
    ) -> asyncio.Future[DirectorySpace]: ...


async def handle(
    logs: LogManager, disk: Disk, call: Call[DescribeLogDirsRequest]
) -> DescribeLogDirsResponse:
    asked = call.request.topics
    wanted = (
        None
        if asked is None
        else {TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions}
    )
    results = []
    for directory, found in places(logs, wanted).items():
        try:
            line = await _described(directory, found, logs)
            if call.version >= _FIRST_VERSION_WITH_SPACE:
                await _add_space(line, directory, disk)
        except KafkaError as failure:
            line = _line(directory, failure)
        results.append(line)
    return DescribeLogDirsResponse(throttle_time_ms=0, results=results)


async def _described(
    directory: LogDirectory, found: Sequence[Place], logs: LogManager
) -> Directory:
    if not directory.is_online:
        raise directory.offline()
    line = _line(directory)
    topics: dict[str, Topic] = {}
    async for each in described(found, logs):
        name = each.partition.topic
        topic = topics.setdefault(name, Topic(name=name, partitions=[]))
        topic.partitions.append(_partition(each))
    line.topics = list(topics.values())
    return line


def _line(directory: LogDirectory, failure: KafkaError | None = None) -> Directory:
    return Directory(error_code=code_of(failure), log_dir=str(directory.path), topics=[])


def _partition(log: DescribedLog) -> Topic.Partition:
    return Topic.Partition(
        partition_index=log.partition.partition,
        partition_size=log.size_bytes,
        offset_lag=log.offset_lag,
        is_future_key=log.is_future,
    )


async def _add_space(line: Directory, directory: LogDirectory, disk: Disk) -> None:
    try:
        space = await disk.run_in(directory, directory.space)
    except OSError as failure:
        raise KafkaStorageError(f"{directory.path} does not tell its size: {failure}") from failure
    line.total_bytes, line.usable_bytes = space.total_bytes, space.usable_bytes


def refused(call: Call[DescribeLogDirsRequest], failure: KafkaError) -> DescribeLogDirsResponse:
    """All of it, for one reason; versions before 3 see only that nothing is there."""
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code_of(failure), results=[])
