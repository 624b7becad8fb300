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
    """Records the states of the partitions that it gets."""

    def __init__(self):
        self.states = {}

    def drop_if_reassigned(self, partition, topic_id, state):
        self.states[partition] = topic_id, state.replicas


def send(metadata_cache, request, *, replicas=None, fence=None, deleted=None, version=8):
    deleted_partitions, replicas = [] if deleted is None else deleted, replicas or Replicas()
    fence = fence or ControllerFence(lambda: 5)
    return answer(
        update_metadata.handle,
        metadata_cache,
        replicas,
        fence,
        deleted_partitions.append,
        request,
        version=version,
    ).error_code


def test_metadata_comes_from_the_controller():
    metadata_cache = cluster()
    assert send(metadata_cache, update({"t": [state()]}, controller_id=2)) == 0
    assert metadata_cache.has_partition("t", 0)
    assert metadata_cache.controller_id == 2


@pytest.mark.parametrize("version", versions_of(UpdateMetadataRequest))
def test_request_is_applied_in_every_version(version):
    metadata_cache = cluster()
    request = update()
    request.live_brokers[0].v0_host = "inside1"
    if version >= 5:
        request.topic_states = update({"t": [state()]}).topic_states
    else:
        request.ungrouped_partition_states = [state(topic="t")]
    replicas = Replicas()
    decoded = as_sent(request, version=version)
    assert send(metadata_cache, decoded, replicas=replicas, version=version) == 0
    expected_id = topic_id("t") if version >= 7 else None
    assert replicas.states == {TopicPartition("t", 0): (expected_id, [1, 2])}
    assert metadata_cache.partition("t", 0).replicas == [1, 2]
    listener = "PLAINTEXT" if version < 3 else "INSIDE"
    assert metadata_cache.leader_node("t", 0, listener=listener).host == "inside1"


def test_deleted_partitions_are_passed_to_the_callback():
    deleted = []
    metadata_cache = cluster(update({"t": [state()], "u": [state()]}))
    send(metadata_cache, update({"u": [state(leader=1)]}), deleted=deleted)
    assert deleted == []
    send(metadata_cache, update({"t": [state(leader=GOING)]}), deleted=deleted)
    assert deleted == [(TopicPartition("t", 0),)]


@pytest.mark.parametrize(
    ("stale", "error"),
    [
        ({"controller_epoch": 1}, StaleControllerEpoch),
        ({"controller_epoch": 2, "broker_epoch": 4}, StaleBrokerEpoch),
    ],
)
def test_stale_request_changes_nothing(stale, error):
    metadata_cache = cluster()
    fence = ControllerFence(lambda: 5)
    send(metadata_cache, update(controller_epoch=2, broker_epoch=5), fence=fence)
    with pytest.raises(error):
        send(
            metadata_cache, update({"t": [state()]}, brokers=[live_broker(9)], **stale), fence=fence
        )
    assert not metadata_cache.has_topic("t")
    assert not metadata_cache.is_alive(9)
