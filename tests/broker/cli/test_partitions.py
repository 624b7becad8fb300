"""Log end offsets of partitions, some of which have no leader."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition, known_log_end_offsets, log_end_offsets

ONLINE, LEADERLESS_PARTITION = TopicAndPartition("orders", 0), TopicAndPartition("orders", 1)


class OffsetResult:
    """The result for a partition that has a leader."""

    offset = 7


class FakeAdmin:
    """Returns an error for the partition without a leader, and an offset for the others."""

    def __init__(self, *, error):
        self.error = error

    def list_offsets(self, requested, request_timeout):
        return {
            partition: self._future(TopicAndPartition(partition.topic, partition.partition))
            for partition in requested
        }

    def _future(self, partition):
        future = Future()
        if partition == LEADERLESS_PARTITION:
            future.set_exception(KafkaException(KafkaError(self.error)))
        else:
            future.set_result(OffsetResult)
        return future


LEADERLESS = [
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
]


@pytest.mark.parametrize("error", LEADERLESS)
def test_partition_without_leader_has_no_end_offset(error):
    admin = FakeAdmin(error=error)
    assert known_log_end_offsets(admin, [ONLINE, LEADERLESS_PARTITION], 1) == {ONLINE: 7}
    with pytest.raises(
        CommandFailed, match="orders:1: there is no such partition, or it has no leader"
    ):
        log_end_offsets(admin, [ONLINE, LEADERLESS_PARTITION], 1)


def test_other_errors_are_raised():
    admin = FakeAdmin(error=KafkaError._TIMED_OUT)
    for function in (log_end_offsets, known_log_end_offsets):
        with pytest.raises(CommandFailed, match="orders:1: TIMED_OUT"):
            function(admin, [ONLINE, LEADERLESS_PARTITION], 1)


def test_no_partitions_send_no_request():
    assert log_end_offsets(None, [], 1) == {}
