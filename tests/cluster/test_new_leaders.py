"""What a new leader knows of what the last one did, and what it does not tell before it knows it.

All tests share three brokers, each with two disks, which are whole again after each.
"""

import errno
import time

import pytest
from confluent_kafka.admin import NewTopic

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.cluster import REPLICAS, Cluster
from tests.support.cluster_faults import (
    ALL_IN_SYNC,
    LEADER_ONLY,
    wait_for_another_leader,
    wait_until_written,
    write,
)
from tests.support.cluster_network import Network
from tests.support.faulty_broker import FaultyBroker
from tests.support.group_members import wait_until
from tests.support.leader_watch import LeaderWatch
from tests.support.partition_client import EARLIEST, LATEST, PartitionClient
from tests.support.wire_client import call

#: Who lags stays in sync for as long as it is registered.
SETTINGS = ("replica.lag.time.max.ms=60000",)
PRODUCER_ID = 4_000
COUNT = 3


class TwoDisks(FaultyBroker):
    def __init__(self, data_dir, *overrides, **more):
        log_dirs = f"log.dirs={data_dir},{data_dir}-second"
        super().__init__(data_dir, *overrides, log_dirs, **more)

    def disk_of(self, topic):
        (found,) = self.data_dir.parent.glob(f"{self.data_dir.name}*/{topic}-0")
        return found.parent


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    directory = tmp_path_factory.mktemp("leaders")
    with Network(zookeeper.address, brokers=REPLICAS) as network:
        made = Cluster(directory, zookeeper, *SETTINGS, network=network, kind=TwoDisks)
        with made.running() as running:
            yield running


def told_end(broker, topic, *, version=6):
    """The latest offset, or the error."""
    asked = {"partition_index": 0, "timestamp": LATEST}
    topics = [{"name": topic, "partitions": [asked]}]
    answer = call(
        broker.address,
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=topics,
    )
    (line,) = answer.topics[0].partitions
    return ErrorCode.for_code(line.error_code) if line.error_code else line.offset


def log_of(broker, topic):
    (segment,) = (broker.disk_of(topic) / f"{topic}-0").glob("*.log")
    return segment.read_bytes()


def test_r6_a_leader_that_cannot_know_the_end_of_the_log_does_not_tell_it(cluster):
    topic = "r6"
    # Who leads next is the controller: it hears of that though it can reach nobody.
    wait_until(lambda: cluster.controller() >= 0)
    following = cluster.brokers[cluster.controller()]
    leading, third = cluster.others(following)
    create_on(cluster, topic, leading, following, third)
    with LeaderWatch(cluster.brokers, topic) as watch:
        wait_until_written(leading, topic, b"of all")
        shown = told_end(leading, topic)
        # The third is in sync, and stands still: the others have what they may not show.
        cluster.network.cut(*map(cluster.brokers.index, (third, leading, following)))
        try:
            assert write(leading, topic, b"of two", acks=LEADER_ONLY) is ErrorCode.NONE
            wait_until(lambda: b"of two" in log_of(following, topic))
            wait_until(lambda: watch.latest[0] and watch.latest[0][-1].offset == shown)
            leading.kill()
            wait_for_another_leader(cluster, topic, leading, by=following)
            assert told_end(following, topic) is ErrorCode.OFFSET_NOT_AVAILABLE
            assert told_end(following, topic, version=5) is ErrorCode.OFFSET_NOT_AVAILABLE
            assert told_end(following, topic, version=4) is ErrorCode.LEADER_NOT_AVAILABLE
            with PartitionClient(following.address, topic) as client:
                for position in (shown, shown + 1):
                    line = client.fetch(position)
                    assert (line.error_code, bytes(line.records or b"")) == (0, b"")
            wait_until(lambda: watch.refusals[ErrorCode.OFFSET_NOT_AVAILABLE])
        finally:
            cluster.network.mend()
        wait_until(lambda: watch.latest[0][-1].offset == shown + 1)
        leading.start()
        cluster.wait_until_whole(topic)
    watch.check()


def create_on(cluster, topic, *brokers):
    """The first leads."""
    placed = [cluster.brokers.index(each) for each in brokers]
    cluster.admin.create(NewTopic(topic, 1, replica_assignment=[placed]))
    cluster.wait_until_whole(topic)
    assert cluster.leader(topic) is brokers[0]


def batch_by(*, epoch=0, sequence):
    now_ms = time.time_ns() // 10**6
    records = [Record(number, now_ms, None, b"%d" % sequence, ()) for number in range(COUNT)]
    fields = {"producer_id": PRODUCER_ID, "producer_epoch": epoch, "base_sequence": sequence}
    return bytes(batch_of(*records, **fields))


def sent(client, batch):
    """Where it went, or the error."""
    line = client.produce(batch)
    return ErrorCode.for_code(line.error_code) if line.error_code else line.base_offset


def test_p1_p2_p3_p6_s8_a_new_leader_knows_producers_and_what_was_deleted(cluster):
    topic, offsets = "p1", [COUNT * number for number in range(5)]
    cluster.create(topic)
    leader = cluster.leader(topic)
    batches = [batch_by(sequence=offset) for offset in offsets]
    with PartitionClient(leader.address, topic) as client:
        assert [sent(client, each) for each in batches] == offsets
        assert client.delete_records(before=COUNT) == COUNT
    leader.kill()
    new = wait_for_another_leader(cluster, topic, leader, by=cluster.others(leader)[0])
    with PartitionClient(new.address, topic) as client:
        wait_until(lambda: not client.fetch(COUNT).error_code)
        assert [sent(client, each) for each in batches] == offsets
        end = client.offset_at(LATEST)
        assert end == COUNT * len(batches)
        late = batch_by(sequence=COUNT + end)
        assert sent(client, late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert sent(client, batch_by(epoch=1, sequence=0)) == end
        assert sent(client, late) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert (client.offset_at(EARLIEST), client.offset_at(LATEST)) == (COUNT, end + COUNT)
        refused = client.fetch(COUNT - 1)
        assert ErrorCode.for_code(refused.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
    leader.start()
    cluster.wait_until_whole(topic)


def test_s10_when_the_disk_of_a_leader_fails_another_leads(cluster):
    topic = "s10"
    cluster.create(topic)
    sick = cluster.leader(topic)
    wait_until_written(sick, topic, b"before")
    sick.fail(errno.EIO, below=sick.disk_of(topic))
    try:
        refused = write(sick, topic, b"refused", acks=ALL_IN_SYNC)
        assert refused is ErrorCode.KAFKA_STORAGE_ERROR
        new = wait_for_another_leader(cluster, topic, sick, by=cluster.others(sick)[0])
        wait_until_written(new, topic, b"after")
        assert sick.is_alive()
    finally:
        sick.heal()
    sick.restart()
    cluster.wait_until_whole(topic)
    wait_until(lambda: log_of(sick, topic) == log_of(new, topic))
    assert b"before" in log_of(sick, topic)
    assert b"after" in log_of(sick, topic)
    assert b"refused" not in log_of(sick, topic)
