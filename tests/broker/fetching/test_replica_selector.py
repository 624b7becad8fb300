"""Consumers that say where they are, are sent to the replica beside them."""

from dataclasses import replace

import pytest

from odradek.broker.fetching.closest_replica import ClosestReplica
from odradek.broker.metadata.picture import Node
from odradek.broker.settings.replication import RACK_AWARE
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import Layer, SettingError
from tests.support.calls import called, in_the_end
from tests.support.fetches import FetchBench, append, asked, lines, request, told
from tests.support.hosted_partitions import BROKER

RACKS = {BROKER: "a", 2: "b", 3: "b", 4: "c"}


class Scene(FetchBench):
    """Broker 1 leads a partition of three records, which 2, 3 and 4 follow."""

    def __init__(self, path):
        super().__init__(path)
        self.cluster.brokers = {each: Node(each, "h", 9, rack) for each, rack in RACKS.items()}
        self.policy = replace(self.policy, closest=ClosestReplica(self.cluster))
        self.partition = self.lead(replicas=(BROKER, 2, 3, 4))
        append(self.partition, b"a", b"b", b"c")
        for replica in (2, 3, 4):
            self.fetched_by(replica, 3)

    def fetched_by(self, replica, offset, *, start_offset=0):
        self.partition.follower_fetched(replica, offset=offset, start_offset=start_offset)

    def preferred(self, *, rack, offset=3, listener="INSIDE", version=12, **fields):
        asked_for = request(asked(offset=offset), rack_id=rack, **fields)
        response = self.answered(called(asked_for, version=version, listener=listener))
        (line,) = lines(response)
        return line.preferred_read_replica


@pytest.mark.parametrize(("rack", "replica"), [("a", -1), ("b", 3), ("c", 4), ("d", -1), ("", -1)])
async def test_a_follower_in_the_same_rack_is_closer_than_a_leader_elsewhere(
    tmp_path, rack, replica
):
    assert Scene(tmp_path).preferred(rack=rack) == replica


async def test_of_several_the_one_is_preferred_that_has_most(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partition, b"d")
    scene.fetched_by(2, 4)
    assert scene.preferred(rack="b") == 2


async def test_who_has_not_what_is_asked_for_is_not(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partition, b"d")
    for replica in (2, 3, 4):
        scene.fetched_by(replica, 4, start_offset=2)
    assert scene.preferred(rack="c", offset=4) == 4
    assert scene.preferred(rack="c", offset=1) == -1
    assert scene.preferred(rack="c", offset=9) == -1


async def test_nor_who_is_not_in_sync_or_not_alive_or_not_to_be_reached(tmp_path):
    scene = Scene(tmp_path)
    assert scene.preferred(rack="c", listener="OUTSIDE") == -1
    scene.partition.in_sync_changed([BROKER, 2, 3], partition_epoch=1)
    assert scene.preferred(rack="c") == -1
    del scene.cluster.brokers[3]
    assert scene.preferred(rack="b") == 2


async def test_old_clients_followers_and_brokers_without_a_selector_know_nothing_of_it(tmp_path):
    scene = Scene(tmp_path)
    assert scene.preferred(rack="c", version=11) == 4
    follower = request(asked(offset=3), rack_id="c", replica_id=2)
    assert lines(scene.fetched(follower))[0].preferred_read_replica == -1
    scene.policy = replace(scene.policy, closest=None)
    assert scene.preferred(rack="c") == -1


async def test_whoever_is_sent_away_is_told_at_once_and_without_records(tmp_path):
    scene = Scene(tmp_path)
    polling = request(asked(offset=1), rack_id="c", max_wait_ms=60_000, min_bytes=1 << 20)
    response = await in_the_end(scene.fetched(polling))
    assert told(response) == [(0, "NONE", [])]
    (line,) = lines(response)
    assert (line.high_watermark, line.preferred_read_replica) == (3, 4)


async def test_an_epoch_that_is_over_is_told_instead(tmp_path):
    scene = Scene(tmp_path)
    scene.lead(replicas=(BROKER, 2, 3, 4), epoch=2)
    late = request(asked(offset=1, current_leader_epoch=1), rack_id="c")
    assert told(scene.fetched(late)) == [(0, "FENCED_LEADER_EPOCH", [])]


async def test_a_session_is_told_each_time_it_asks(tmp_path):
    scene = Scene(tmp_path)
    first = scene.fetched(request(asked(offset=3), rack_id="c", session_epoch=0))
    assert lines(first)[0].preferred_read_replica == 4
    for epoch in (1, 2):
        again = request(session_id=first.session_id, session_epoch=epoch, rack_id="c")
        (line,) = lines(scene.fetched(again))
        assert line.preferred_read_replica == 4


async def test_a_follower_serves_consumers_up_to_the_watermark_that_it_knows(tmp_path):
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


def test_a_selector_that_is_not_known_is_refused():
    written = {"log.dirs": "somewhere", "broker.id": "1", "replica.selector.class": RACK_AWARE}
    settings = ServerSettings.read({Layer.FILE: written})
    assert settings.replication.is_rack_aware
    with pytest.raises(SettingError):
        ServerSettings.read({Layer.FILE: {**written, "replica.selector.class": "com.acme.Mine"}})
