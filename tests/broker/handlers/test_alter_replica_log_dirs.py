"""AlterReplicaLogDirs: moves of replicas between log directories, with a result per partition."""

from odradek.broker.handlers import alter_replica_log_dirs
from odradek.protocol.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from odradek.protocol.codec import encode
from odradek.protocol.errors import KafkaStorageError, LogDirNotFound, NotLeaderOrFollower
from odradek.protocol.types import TopicPartition
from tests.support.calls import called

Directory = AlterReplicaLogDirsRequest.Directory


class RecordingMover:
    """Record the requested moves without moving anything."""

    def __init__(self, **errors):
        self.moved = {}
        self.errors = errors

    async def move(self, partition, path):
        self.moved[partition] = path
        if partition.topic in self.errors:
            raise self.errors[partition.topic]


def build_request(**paths):
    """Build a request from the topics and partitions of each path."""
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


def partition_errors(response):
    assert encode(response, 2)
    return {
        topic.topic_name: [
            (partition.partition_index, partition.error_code) for partition in topic.partitions
        ]
        for topic in response.results
    }


async def test_each_partition_is_moved_or_rejected_independently():
    moves = RecordingMover(gone=NotLeaderOrFollower(), lost=LogDirNotFound())
    body = build_request(one={"events": [0, 1], "gone": [0]}, two={"events": [2], "lost": [4]})
    response = await alter_replica_log_dirs.handle(moves, called(body))
    assert partition_errors(response) == {
        "events": [(0, 0), (1, 0), (2, 0)],
        "gone": [(0, 9)],
        "lost": [(4, 57)],
    }
    assert moves.moved[TopicPartition("events", 2)] == "two"


async def test_duplicate_partition_is_moved_to_its_last_directory():
    moves = RecordingMover()
    body = build_request(one={"events": [0]}, two={"events": [0]})
    assert partition_errors(await alter_replica_log_dirs.handle(moves, called(body))) == {
        "events": [(0, 0)]
    }
    assert moves.moved == {TopicPartition("events", 0): "two"}


async def test_request_error_is_returned_for_every_partition():
    request = called(build_request(one={"events": [0, 1]}))
    response = alter_replica_log_dirs.error_response(request, KafkaStorageError())
    assert partition_errors(response) == {"events": [(0, 56), (1, 56)]}
