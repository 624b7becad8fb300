"""Tests of broker/handlers/update_metadata.py."""

import pytest

from odradek.broker.handlers import update_metadata
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.errors import StaleBrokerEpoch, StaleControllerEpoch
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer, as_sent, versions_of
from tests.support.metadata_updates import (
    GOING,
    cluster,
    live_broker,
    state,
    topic_id,
    update,
)


class Replicas:
    """Notes what is told of partitions."""

    def __init__(self):
        self.told = {}

    def told_of(self, partition, topic_id, state):
        self.told[partition] = topic_id, state.replicas


def told(known, request, *, replicas=None, fence=None, deleted=None, version=8):
    noted, replicas = [] if deleted is None else deleted, replicas or Replicas()
    fence = fence or ControllerFence(lambda: 5)
    return answer(
        update_metadata.handle, known, replicas, fence, noted.append, request, version=version
    ).error_code


def test_the_picture_is_the_controllers():
    known = cluster()
    assert told(known, update({"t": [state()]}, controller_id=2)) == 0
    assert known.has_partition("t", 0)
    assert known.controller_id == 2


@pytest.mark.parametrize("version", versions_of(UpdateMetadataRequest))
def test_it_is_understood_in_every_version(version):
    known = cluster()
    request = update()
    request.live_brokers[0].v0_host = "inside1"
    if version >= 5:
        request.topic_states = update({"t": [state()]}).topic_states
    else:
        request.ungrouped_partition_states = [state(topic="t")]
    replicas = Replicas()
    arrived = as_sent(request, version=version)
    assert told(known, arrived, replicas=replicas, version=version) == 0
    told_id = topic_id("t") if version >= 7 else None
    assert replicas.told == {TopicPartition("t", 0): (told_id, [1, 2])}
    assert known.partition("t", 0).replicas == [1, 2]
    listener = "PLAINTEXT" if version < 3 else "INSIDE"
    assert known.leader_node("t", 0, listener=listener).host == "inside1"


def test_whoever_must_know_is_told_what_is_gone():
    deleted = []
    known = cluster(update({"t": [state()], "u": [state()]}))
    told(known, update({"u": [state(leader=1)]}), deleted=deleted)
    assert deleted == []
    told(known, update({"t": [state(leader=GOING)]}), deleted=deleted)
    assert deleted == [(TopicPartition("t", 0),)]


@pytest.mark.parametrize(
    ("late", "refusal"),
    [
        ({"controller_epoch": 1}, StaleControllerEpoch),
        ({"controller_epoch": 2, "broker_epoch": 4}, StaleBrokerEpoch),
    ],
)
def test_what_comes_late_changes_nothing(late, refusal):
    known = cluster()
    fence = ControllerFence(lambda: 5)
    told(known, update(controller_epoch=2, broker_epoch=5), fence=fence)
    with pytest.raises(refusal):
        told(known, update({"t": [state()]}, brokers=[live_broker(9)], **late), fence=fence)
    assert not known.has_topic("t")
    assert not known.is_alive(9)
