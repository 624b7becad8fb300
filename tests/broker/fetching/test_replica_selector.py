"""Consumers that send their rack are redirected to a replica in it."""

from dataclasses import replace

import pytest

from odradek.broker.fetching.replica_selector import RackAwareReplicaSelector
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.settings.replication import RACK_AWARE_SELECTOR
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import ConfigSource, SettingError
from tests.support.calls import called, in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, request, told
from tests.support.hosted_partitions import BROKER

RACKS = {BROKER: "a", 2: "b", 3: "b", 4: "c"}


class Scene(FetchBench):
    """Broker 1 leads a partition of three records; brokers 2, 3 and 4 follow."""

    def __init__(self, path):
        super().__init__(path)
        self.cluster.brokers = {
            broker_id: Node(broker_id, "h", 9, rack) for broker_id, rack in RACKS.items()
        }
        self.policy = replace(self.policy, replica_selector=RackAwareReplicaSelector(self.cluster))
        self.partition = self.lead(replicas=(BROKER, 2, 3, 4))
        append(self.partition, b"a", b"b", b"c")
        for replica in (2, 3, 4):
            self.fetched_by(replica, 3)

    def fetched_by(self, replica, offset, *, start_offset=0):
        self.partition.update_follower_fetch_state(
            replica, fetch_offset=offset, follower_start_offset=start_offset
        )

    def preferred(self, *, rack, offset=3, listener="INSIDE", version=12, **fields):
        fetch_request = request(asked(offset=offset), rack_id=rack, **fields)
        response = self.answered(called(fetch_request, version=version, listener=listener))
        (partition_response,) = lines(response)
        return partition_response.preferred_read_replica


@pytest.mark.parametrize(("rack", "replica"), [("a", -1), ("b", 3), ("c", 4), ("d", -1), ("", -1)])
async def test_follower_in_the_same_rack_is_preferred_to_a_leader_elsewhere(
    tmp_path, rack, replica
):
    assert Scene(tmp_path).preferred(rack=rack) == replica


async def test_follower_with_the_largest_log_end_offset_is_preferred(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partition, b"d")
    scene.fetched_by(2, 4)
    assert scene.preferred(rack="b") == 2


async def test_follower_without_the_fetch_offset_is_not_preferred(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partition, b"d")
    for replica in (2, 3, 4):
        scene.fetched_by(replica, 4, start_offset=2)
    assert scene.preferred(rack="c", offset=4) == 4
    assert scene.preferred(rack="c", offset=1) == -1
    assert scene.preferred(rack="c", offset=9) == -1


async def test_follower_out_of_isr_or_not_alive_or_not_reachable_is_not_preferred(tmp_path):
    scene = Scene(tmp_path)
    assert scene.preferred(rack="c", listener="OUTSIDE") == -1
    scene.partition.update_isr([BROKER, 2, 3], partition_epoch=1)
    assert scene.preferred(rack="c") == -1
    del scene.cluster.brokers[3]
    assert scene.preferred(rack="b") == 2


async def test_followers_and_brokers_without_a_selector_have_no_preferred_replica(tmp_path):
    scene = Scene(tmp_path)
    assert scene.preferred(rack="c", version=11) == 4
    follower = request(asked(offset=3), rack_id="c", replica_id=2)
    assert lines(scene.fetched(follower))[0].preferred_read_replica == -1
    scene.policy = replace(scene.policy, replica_selector=None)
    assert scene.preferred(rack="c") == -1


async def test_redirected_consumer_is_answered_at_once_without_records(tmp_path):
    scene = Scene(tmp_path)
    long_poll = request(asked(offset=1), rack_id="c", max_wait_ms=60_000, min_bytes=1 << 20)
    response = await in_the_end(scene.fetched(long_poll))
    assert told(response) == [(0, "NONE", [])]
    (partition_response,) = lines(response)
    assert (partition_response.high_watermark, partition_response.preferred_read_replica) == (3, 4)


async def test_old_leader_epoch_is_rejected_before_the_redirect(tmp_path):
    scene = Scene(tmp_path)
    scene.lead(replicas=(BROKER, 2, 3, 4), epoch=2)
    fenced_fetch = request(asked(offset=1, current_leader_epoch=1), rack_id="c")
    assert told(scene.fetched(fenced_fetch)) == [(0, "FENCED_LEADER_EPOCH", [])]


async def test_preferred_replica_is_sent_in_every_response_of_a_session(tmp_path):
    scene = Scene(tmp_path)
    first = scene.fetched(request(asked(offset=3), rack_id="c", session_epoch=0))
    assert lines(first)[0].preferred_read_replica == 4
    for epoch in (1, 2):
        next_fetch = request(session_id=first.session_id, session_epoch=epoch, rack_id="c")
        (partition_response,) = lines(scene.fetched(next_fetch))
        assert partition_response.preferred_read_replica == 4


async def test_follower_serves_consumers_up_to_its_high_watermark(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    bench.lead(leader=2, replicas=(2, BROKER), epoch=1)
    partition.log.high_watermark = 2
    assert told(bench.fetched(request(asked(offset=0)))) == [(0, "NONE", [b"a", b"b"])]
    assert told(bench.fetched(request(asked(offset=3)))) == [(0, "NONE", [])]
    assert told(bench.fetched(request(asked(offset=4)))) == [(0, "OFFSET_OUT_OF_RANGE", [])]
    assert told(bench.fetched(request(asked()), version=10)) == [(0, "NOT_LEADER_OR_FOLLOWER", [])]


def test_unknown_selector_is_rejected():
    properties = {
        "log.dirs": "somewhere",
        "broker.id": "1",
        "replica.selector.class": RACK_AWARE_SELECTOR,
    }
    settings = ServerSettings.read({ConfigSource.FILE: properties})
    assert settings.replication.is_rack_aware
    with pytest.raises(SettingError):
        ServerSettings.read(
            {ConfigSource.FILE: {**properties, "replica.selector.class": "com.acme.Mine"}}
        )
