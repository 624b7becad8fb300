"""The offsets of logs, where leaders are missing."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.partitions import Place, ends, ends_that_are_known

HERE, GONE = Place("orders", 0), Place("orders", 1)


class Told:
    """An answer for a partition that is there."""

    offset = 7


class Cluster:
    """Says of each partition what it was told to say."""

    def __init__(self, *, of_gone):
        self.of_gone = of_gone

    def list_offsets(self, asked, request_timeout):
        return {at: self._future(Place(at.topic, at.partition)) for at in asked}

    def _future(self, place):
        future = Future()
        if place == GONE:
            future.set_exception(KafkaException(KafkaError(self.of_gone)))
        else:
            future.set_result(Told)
        return future


LEADERLESS = [
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
]


@pytest.mark.parametrize("error", LEADERLESS)
def test_a_partition_that_nobody_leads_has_no_end(error):
    cluster = Cluster(of_gone=error)
    assert ends_that_are_known(cluster, [HERE, GONE], 1) == {HERE: 7}
    with pytest.raises(CommandFailed, match="orders:1: there is no such partition, or no leader"):
        ends(cluster, [HERE, GONE], 1)


def test_another_failure_is_told():
    cluster = Cluster(of_gone=KafkaError._TIMED_OUT)
    for asked in (ends, ends_that_are_known):
        with pytest.raises(CommandFailed, match="orders:1: TIMED_OUT"):
            asked(cluster, [HERE, GONE], 1)


def test_nothing_is_asked_of_no_partitions():
    assert ends(None, [], 1) == {}
