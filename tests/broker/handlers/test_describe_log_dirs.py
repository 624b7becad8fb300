"""DescribeLogDirs: what lies in which log directory."""

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


async def described(hosting, topics=ALL, *, version=4):
    call = called(DescribeLogDirsRequest(topics=topics), version=version)
    response = await describe_log_dirs.handle(hosting.logs, hosting.disk, call)
    return decode(DescribeLogDirsResponse, version, b"".join(encode(response, version)))


def contents(response):
    """By directory: partition, size, lag and whether it is a copy."""
    return {
        line.log_dir: sorted(
            (
                topic.name,
                each.partition_index,
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
            )
            for topic in line.topics
            for each in topic.partitions
        )
        for line in response.results
    }


async def test_logs_are_told_with_their_sizes_and_copies_with_their_lag(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = hosting.lead(partition=0)
    size = append(partition, b"a", b"b")
    source, target = sorted(
        hosting.logs.directories, key=lambda each: each is not partition.hosted.directory
    )
    hosting.logs.create_future(partition.topic_partition, target, now_ms=NOW_MS)
    assert contents(await described(hosting)) == {
        str(source.path): [("events", 0, size, 0, False)],
        str(target.path): [("events", 0, 0, 2, True)],
    }


async def test_a_log_that_moves_meanwhile_is_seen_where_it_was(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = hosting.lead(partition=0)
    source, target = sorted(
        hosting.logs.directories, key=lambda each: each is not partition.hosted.directory
    )
    disk = MovingDisk(hosting, partition.topic_partition, target)
    call = called(DescribeLogDirsRequest(topics=ALL), version=4)
    response = await describe_log_dirs.handle(hosting.logs, disk, call)
    assert contents(response) == {
        str(source.path): [("events", 0, 0, 0, False)],
        str(target.path): [],
    }


class MovingDisk:
    """A log has moved by the time that it tells the size of a directory."""

    def __init__(self, hosting, partition, target):
        self._hosting = hosting
        self._move = lambda: move(hosting.logs, partition, target)

    def run_in(self, directory, call):
        self._move()
        self._move = lambda: None
        return self._hosting.disk.run_in(directory, call)


async def test_only_what_was_asked_for_is_told(tmp_path):
    hosting = Hosting(tmp_path)
    for topic, partition in [("events", 0), ("events", 1), ("orders", 0)]:
        hosting.lead(topic, partition)
    found = await described(hosting, [Topic(topic="events", partitions=[1, 7])])
    assert contents(found) == {str(tmp_path): [("events", 1, 0, 0, False)]}
    assert contents(await described(hosting, [])) == {str(tmp_path): []}
    assert [topic.name for topic in (await described(hosting)).results[0].topics] == [
        "events",
        "orders",
    ]


async def test_the_volumes_size_is_told_from_version_4_on(tmp_path):
    hosting = Hosting(tmp_path)
    (line,) = (await described(hosting)).results
    assert line.total_bytes >= line.usable_bytes > 0
    (line,) = (await described(hosting, version=3)).results
    assert (line.total_bytes, line.usable_bytes) == (-1, -1)


@pytest.mark.parametrize("version", range(5))
async def test_a_directory_that_failed_is_told_without_what_was_in_it(tmp_path, version):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    broken = hosting.lead().hosted.directory
    broken.fail(OSError("broken"), "a test")
    response = await described(hosting, version=version)
    codes = {line.log_dir: line.error_code for line in response.results}
    assert codes == {
        str(each.path): 56 if each is broken else 0 for each in hosting.logs.directories
    }
    assert not any(contents(response).values())


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 31)])
async def test_a_refusal_of_all_is_seen_where_there_is_a_place_for_it(version, code):
    call = called(DescribeLogDirsRequest(topics=None), version=version)
    response = describe_log_dirs.refused(call, ClusterAuthorizationFailed())
    seen = decode(DescribeLogDirsResponse, version, b"".join(encode(response, version)))
    assert (seen.error_code, seen.results) == (code, [])
