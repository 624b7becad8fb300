"""AlterReplicaLogDirs: what is asked for, and what is told of each partition."""

from odradek.broker.handlers import alter_replica_log_dirs
from odradek.protocol.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from odradek.protocol.codec import encode
from odradek.protocol.errors import KafkaStorageError, LogDirNotFound, NotLeader
from odradek.protocol.types import TopicPartition
from tests.support.calls import called

Directory = AlterReplicaLogDirsRequest.Directory


class NotedMoves:
    """Moves nothing."""

    def __init__(self, **failures):
        self.asked = {}
        self.failures = failures

    async def move(self, partition, path):
        self.asked[partition] = path
        if partition.topic in self.failures:
            raise self.failures[partition.topic]


def request(**paths):
    """Each path with its topics and their partitions."""
    return AlterReplicaLogDirsRequest(
        dirs=[
            Directory(
                path=path,
                topics=[
                    Directory.Topic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
            for path, topics in paths.items()
        ]
    )


def lines(response):
    assert encode(response, 2)
    return {
        topic.topic_name: [(line.partition_index, line.error_code) for line in topic.partitions]
        for topic in response.results
    }


async def test_each_partition_is_moved_or_refused_alone():
    moves = NotedMoves(gone=NotLeader(), lost=LogDirNotFound())
    wanted = request(one={"events": [0, 1], "gone": [0]}, two={"events": [2], "lost": [4]})
    response = await alter_replica_log_dirs.handle(moves, called(wanted))
    assert lines(response) == {
        "events": [(0, 0), (1, 0), (2, 0)],
        "gone": [(0, 9)],
        "lost": [(4, 57)],
    }
    assert moves.asked[TopicPartition("events", 2)] == "two"


async def test_a_partition_named_twice_goes_where_it_was_named_last():
    moves = NotedMoves()
    wanted = request(one={"events": [0]}, two={"events": [0]})
    assert lines(await alter_replica_log_dirs.handle(moves, called(wanted))) == {"events": [(0, 0)]}
    assert moves.asked == {TopicPartition("events", 0): "two"}


async def test_a_refusal_of_all_reaches_every_line():
    call = called(request(one={"events": [0, 1]}))
    response = alter_replica_log_dirs.refused(call, KafkaStorageError())
    assert lines(response) == {"events": [(0, 56), (1, 56)]}
