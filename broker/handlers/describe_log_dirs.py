"""DescribeLogDirs: the logs in the log directories of this broker, and the disk space.

An offline directory is listed with its error and without its logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.broker.replicas.log_dir_descriptions import (
    LogDescription,
    LogLocation,
    describe_logs,
    locate_logs,
)
from odradek.broker.request import Request
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.errors import KafkaError, KafkaStorageError, code_of
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.directory import DirectorySpace, LogDirectory
from odradek.storage.manager.log_manager import LogManager

_FIRST_VERSION_WITH_SPACE = 4

Directory = DescribeLogDirsResponse.Directory
Topic = Directory.Topic


class DirectoryExecutor(Protocol):
    """Runs blocking system calls."""

    def run_in(
        self, directory: LogDirectory, function: Callable[[], DirectorySpace], /
    ) -> asyncio.Future[DirectorySpace]: ...


async def handle(
    log_manager: LogManager,
    disk_executor: DirectoryExecutor,
    request: Request[DescribeLogDirsRequest],
) -> DescribeLogDirsResponse:
    topics = request.body.topics
    partitions = (
        None
        if topics is None
        else {TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions}
    )
    results = []
    for directory, locations in locate_logs(log_manager, partitions).items():
        try:
            directory_response = await _describe_directory(directory, locations, log_manager)
            if request.version >= _FIRST_VERSION_WITH_SPACE:
                await _add_space(directory_response, directory, disk_executor)
        except KafkaError as error:
            directory_response = _directory_response(directory, error)
        results.append(directory_response)
    return DescribeLogDirsResponse(throttle_time_ms=0, results=results)


async def _describe_directory(
    directory: LogDirectory, locations: Sequence[LogLocation], log_manager: LogManager
) -> Directory:
    if not directory.is_online:
        raise directory.offline_error()
    directory_response = _directory_response(directory)
    topics: dict[str, Topic] = {}
    async for description in describe_logs(locations, log_manager):
        name = description.partition.topic
        topic = topics.setdefault(name, Topic(name=name, partitions=[]))
        topic.partitions.append(_partition_response(description))
    directory_response.topics = list(topics.values())
    return directory_response


def _directory_response(directory: LogDirectory, error: KafkaError | None = None) -> Directory:
    return Directory(error_code=code_of(error), log_dir=str(directory.path), topics=[])


def _partition_response(log: LogDescription) -> Topic.Partition:
    return Topic.Partition(
        partition_index=log.partition.partition,
        partition_size=log.size_bytes,
        offset_lag=log.offset_lag,
        is_future_key=log.is_future,
    )


async def _add_space(
    directory_response: Directory, directory: LogDirectory, disk_executor: DirectoryExecutor
) -> None:
    try:
        space = await disk_executor.run_in(directory, directory.space)
    except OSError as error:
        raise KafkaStorageError(
            f"cannot read the disk space of {directory.path}: {error}"
        ) from error
    directory_response.total_bytes, directory_response.usable_bytes = (
        space.total_bytes,
        space.usable_bytes,
    )


def error_response(
    request: Request[DescribeLogDirsRequest], error: KafkaError
) -> DescribeLogDirsResponse:
    """Build an empty response; versions before 3 have no error code in it."""
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code_of(error), results=[])
