"""DescribeLogDirs: the partitions, sizes and lags of each log directory."""

import pytest

from odradek.broker.handlers import describe_log_dirs
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ClusterAuthorizationFailed
from tests.support.calls import called
from tests.support.fetches import append
from tests.support.hosted_partitions import Hosting
from tests.support.log_managers import move
from tests.support.logs import NOW_MS

ALL = None
Topic = DescribeLogDirsRequest.Topic


async def describe(hosting, topics=ALL, *, version=4):
    request = called(DescribeLogDirsRequest(topics=topics), version=version)
    response = await describe_log_dirs.handle(hosting.logs, hosting.disk, request)
    return decode(DescribeLogDirsResponse, version, b"".join(encode(response, version)))


def contents(response):
    """Map each directory to its partitions with size, lag and whether it is a future log."""
    return {
        log_dir.log_dir: sorted(
            (
                topic.name,
                each.partition_index,
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
            )
            for topic in log_dir.topics
            for each in topic.partitions
        )
        for log_dir in response.results
    }


async def test_logs_are_returned_with_sizes_and_future_logs_with_lag(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = hosting.lead(partition=0)
    size = append(partition, b"a", b"b")
    source, target = sorted(
        hosting.logs.directories, key=lambda each: each is not partition.hosted_log.directory
    )
    hosting.logs.create_future(partition.topic_partition, target, now_ms=NOW_MS)
    assert contents(await describe(hosting)) == {
        str(source.path): [("events", 0, size, 0, False)],
        str(target.path): [("events", 0, 0, 2, True)],
    }


async def test_log_moved_during_the_request_is_returned_in_its_old_directory(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = hosting.lead(partition=0)
    source, target = sorted(
        hosting.logs.directories, key=lambda each: each is not partition.hosted_log.directory
    )
    disk = MovingDisk(hosting, partition.topic_partition, target)
    request = called(DescribeLogDirsRequest(topics=ALL), version=4)
    response = await describe_log_dirs.handle(hosting.logs, disk, request)
    assert contents(response) == {
        str(source.path): [("events", 0, 0, 0, False)],
        str(target.path): [],
    }


class MovingDisk:
    """Move a log to ``target`` before the first directory is read."""

    def __init__(self, hosting, partition, target):
        self._hosting = hosting
        self._move = lambda: move(hosting.logs, partition, target)

    def run_in(self, directory, function):
        self._move()
        self._move = lambda: None
        return self._hosting.disk.run_in(directory, function)


async def test_only_requested_partitions_are_returned(tmp_path):
    hosting = Hosting(tmp_path)
    for topic, partition in [("events", 0), ("events", 1), ("orders", 0)]:
        hosting.lead(topic, partition)
    response = await describe(hosting, [Topic(topic="events", partitions=[1, 7])])
    assert contents(response) == {str(tmp_path): [("events", 1, 0, 0, False)]}
    assert contents(await describe(hosting, [])) == {str(tmp_path): []}
    assert [topic.name for topic in (await describe(hosting)).results[0].topics] == [
        "events",
        "orders",
    ]


async def test_volume_size_is_returned_from_version_4_on(tmp_path):
    hosting = Hosting(tmp_path)
    (log_dir,) = (await describe(hosting)).results
    assert log_dir.total_bytes >= log_dir.usable_bytes > 0
    (log_dir,) = (await describe(hosting, version=3)).results
    assert (log_dir.total_bytes, log_dir.usable_bytes) == (-1, -1)


@pytest.mark.parametrize("version", range(5))
async def test_offline_log_dir_is_returned_without_its_logs(tmp_path, version):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    broken = hosting.lead().hosted_log.directory
    broken.mark_offline(OSError("broken"), "a test")
    response = await describe(hosting, version=version)
    codes = {log_dir.log_dir: log_dir.error_code for log_dir in response.results}
    assert codes == {
        str(each.path): 56 if each is broken else 0 for each in hosting.logs.directories
    }
    assert not any(contents(response).values())


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 31)])
async def test_request_error_is_returned_from_version_3_on(version, code):
    request = called(DescribeLogDirsRequest(topics=None), version=version)
    response = describe_log_dirs.error_response(request, ClusterAuthorizationFailed())
    decoded = decode(DescribeLogDirsResponse, version, b"".join(encode(response, version)))
    assert (decoded.error_code, decoded.results) == (code, [])
