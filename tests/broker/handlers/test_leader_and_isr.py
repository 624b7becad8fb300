"""LeaderAndIsr and StopReplica: what the controller says is done, partition by partition."""

import asyncio
import inspect

import pytest

from odradek.broker import turns
from odradek.broker.handlers import leader_and_isr, stop_replica
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import StaleControllerEpoch
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid
from tests.support.calls import called
from tests.support.hosted_partitions import Hosting, led

AN_ID = Uuid(bytes([1] * 16))
STATE = StopReplicaRequest.TopicState


class Fence:
    """Knows of one controller and of one life of this broker."""

    def __init__(self):
        self.epoch = 5
        self.order = asyncio.Lock()

    def check(self, *, controller_epoch, broker_epoch):
        if controller_epoch < self.epoch:
            raise StaleControllerEpoch("over")


class Configs:
    """Of topics that have just been created."""

    def __init__(self):
        self.read_topics = []

    async def read(self, topics):
        self.read_topics.append(set(topics))


async def told(hosting, *states, topic_id=AN_ID, version=7, controller_epoch=5, fence=None):
    topic = LeaderAndIsrRequest.TopicState(
        topic_name="events", topic_id=topic_id, partition_states=list(states)
    )
    request = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        topic_states=[topic],
        live_leaders=[],
    )
    return await obeyed(hosting, request, version=version, fence=fence)


async def obeyed(hosting, request, *, version, configs=None, fence=None):
    answer = leader_and_isr.handle(
        hosting.replicas, fence or Fence(), configs or Configs(), called(request, version=version)
    )
    return await answer if inspect.isawaitable(answer) else answer


async def test_each_partition_obeys_or_is_refused_alone(tmp_path):
    hosting = Hosting(tmp_path)
    response = await told(hosting, led(0), led(1, replicas=(7,), leader=7))
    (topic,) = response.topics
    assert topic.topic_id == AN_ID
    assert [(line.partition_index, line.error_code) for line in topic.partition_errors] == [
        (0, 0),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code),
    ]
    assert hosting.replicas.partition("events", 0).topic_id == AN_ID


async def test_older_versions_are_answered_by_name(tmp_path):
    response = await told(Hosting(tmp_path), led(0), topic_id=ZERO_UUID, version=4)
    (line,) = response.partition_errors
    assert (line.topic_name, line.partition_index, line.error_code) == ("events", 0, 0)
    assert response.topics == []


async def test_the_oldest_versions_do_not_group_partitions(tmp_path):
    state = led(3)
    state.topic_name = "events"
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=5, ungrouped_partition_states=[state], live_leaders=[]
    )
    hosting = Hosting(tmp_path)
    await obeyed(hosting, request, version=0)
    assert hosting.replicas.partition("events", 3).leader is not None


async def test_the_configuration_of_a_topic_is_read_before_its_first_log_is_made(tmp_path):
    hosting, configs = Hosting(tmp_path), Configs()
    topic = LeaderAndIsrRequest.TopicState(
        topic_name="events", topic_id=AN_ID, partition_states=[led(0)]
    )
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=5, topic_states=[topic], live_leaders=[]
    )
    await obeyed(hosting, request, version=7, configs=configs)
    assert configs.read_topics == [{"events"}]
    topic.partition_states = [led(0, epoch=1)]
    await obeyed(hosting, request, version=7, configs=configs)
    assert configs.read_topics == [{"events"}]


async def test_an_old_controller_is_refused_whole(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(StaleControllerEpoch):
        await told(hosting, led(0), controller_epoch=4)
    assert hosting.logs.find(TopicPartition("events", 0)) is None


def stopped(hosting, *states, fence=None, **old):
    topics = [STATE(topic_name="events", partition_states=list(states))] if states else []
    request = StopReplicaRequest(controller_id=1, controller_epoch=5, topic_states=topics, **old)
    version = 4 if states else 0
    return stop_replica.handle(hosting.replicas, fence or Fence(), called(request, version=version))


def stop(index, *, delete, epoch=-1):
    return STATE.PartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)


MANY = turns.FEW + 1


async def begun(hosting, obeying):
    """The task, once the first partition is led."""
    task = hosting.background.start(obeying)
    for _ in range(MANY):
        if list(hosting.replicas):
            break
        await asyncio.sleep(0)
    return task


class TestManyPartitions:
    @pytest.fixture(autouse=True)
    def short_turns(self, monkeypatch):
        monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def test_let_others_have_their_turns(self, tmp_path):
        hosting = Hosting(tmp_path)
        obeying = hosting.background.start(told(hosting, *map(led, range(MANY))))
        led_so_far = set()
        while not obeying.done():
            await asyncio.sleep(0)
            led_so_far.add(len(list(hosting.replicas)))
        (topic,) = obeying.result().topics
        assert [line.error_code for line in topic.partition_errors] == [0] * MANY
        assert len(led_so_far) > MANY / 2
        stopping = hosting.background.start(
            stopped(hosting, *(stop(i, delete=True) for i in range(MANY)))
        )
        led_so_far.clear()
        while not stopping.done():
            await asyncio.sleep(0)
            led_so_far.add(len(list(hosting.replicas)))
        assert set(codes(stopping.result()).values()) == {0}
        assert len(led_so_far) > MANY / 2

    async def test_are_not_led_for_a_controller_that_is_over_meanwhile(self, tmp_path):
        hosting, fence = Hosting(tmp_path), Fence()
        obeying = await begun(hosting, told(hosting, *map(led, range(MANY)), fence=fence))
        fence.epoch = 6
        with pytest.raises(StaleControllerEpoch):
            await obeying
        assert len(list(hosting.replicas)) < MANY

    async def test_are_not_overtaken_by_what_the_controller_says_next(self, tmp_path):
        hosting, fence = Hosting(tmp_path), Fence()
        obeying = await begun(hosting, told(hosting, *map(led, range(MANY)), fence=fence))
        last = MANY - 1
        response = await stopped(hosting, stop(last, delete=False), fence=fence)
        assert codes(response) == {last: 0}
        assert obeying.done()
        assert hosting.replicas.partition("events", last).leader is None
        await obeying


def codes(response):
    return {line.partition_index: line.error_code for line in response.partition_errors}


async def test_stopping_alone_is_answered_at_once(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    response = stopped(hosting, stop(0, delete=False), stop(9, delete=False))
    assert codes(response) == {0: 0, 9: 0}
    assert codes(stopped(hosting, stop(0, delete=False, epoch=2))) == {
        0: ErrorCode.FENCED_LEADER_EPOCH.code
    }


async def test_a_deletion_is_answered_when_the_log_is_out_of_the_way(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1)
    waiting = stopped(hosting, stop(0, delete=True), stop(1, delete=False))
    assert inspect.isawaitable(waiting)
    assert codes(await waiting) == {0: 0, 1: 0}
    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert "events-0" not in names
    assert "events-1" in names


async def test_the_oldest_versions_say_it_once_for_all(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    old = StopReplicaRequest.PartitionV0(topic_name="events", partition_index=0)
    response = await stopped(hosting, ungrouped_partitions=[old], delete_partitions=True)
    assert codes(response) == {0: 0}
    assert hosting.logs.find(TopicPartition("events", 0)) is None
