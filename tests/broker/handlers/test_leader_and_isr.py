"""LeaderAndIsr and StopReplica: requests of the controller are applied per partition."""

import asyncio
import inspect

import pytest

from odradek.broker import time_slice
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
    """Accepts controller epochs from ``epoch`` on."""

    def __init__(self):
        self.epoch = 5
        self.state_change_lock = asyncio.Lock()

    def check(self, *, controller_epoch, broker_epoch):
        if controller_epoch < self.epoch:
            raise StaleControllerEpoch("over")


class Configs:
    """Records the topics whose configuration is read."""

    def __init__(self):
        self.read_topics = []

    async def read(self, topics):
        self.read_topics.append(set(topics))


async def send_leader_and_isr(
    hosting, *states, topic_id=AN_ID, version=7, controller_epoch=5, fence=None
):
    topic = LeaderAndIsrRequest.TopicState(
        topic_name="events", topic_id=topic_id, partition_states=list(states)
    )
    request = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        topic_states=[topic],
        live_leaders=[],
    )
    return await handle_request(hosting, request, version=version, fence=fence)


async def handle_request(hosting, request, *, version, configs=None, fence=None):
    response = leader_and_isr.handle(
        hosting.replicas, fence or Fence(), configs or Configs(), called(request, version=version)
    )
    return await response if inspect.isawaitable(response) else response


async def test_each_partition_is_applied_or_rejected_independently(tmp_path):
    hosting = Hosting(tmp_path)
    response = await send_leader_and_isr(hosting, led(0), led(1, replicas=(7,), leader=7))
    (topic,) = response.topics
    assert topic.topic_id == AN_ID
    assert [
        (partition_error.partition_index, partition_error.error_code)
        for partition_error in topic.partition_errors
    ] == [
        (0, 0),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code),
    ]
    assert hosting.replicas.partition("events", 0).topic_id == AN_ID


async def test_older_versions_return_topic_names(tmp_path):
    response = await send_leader_and_isr(Hosting(tmp_path), led(0), topic_id=ZERO_UUID, version=4)
    (partition_error,) = response.partition_errors
    assert (
        partition_error.topic_name,
        partition_error.partition_index,
        partition_error.error_code,
    ) == ("events", 0, 0)
    assert response.topics == []


async def test_oldest_versions_have_ungrouped_partition_states(tmp_path):
    state = led(3)
    state.topic_name = "events"
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=5, ungrouped_partition_states=[state], live_leaders=[]
    )
    hosting = Hosting(tmp_path)
    await handle_request(hosting, request, version=0)
    assert hosting.replicas.partition("events", 3).leader_state is not None


async def test_topic_config_is_read_before_the_first_log_is_created(tmp_path):
    hosting, configs = Hosting(tmp_path), Configs()
    topic = LeaderAndIsrRequest.TopicState(
        topic_name="events", topic_id=AN_ID, partition_states=[led(0)]
    )
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=5, topic_states=[topic], live_leaders=[]
    )
    await handle_request(hosting, request, version=7, configs=configs)
    assert configs.read_topics == [{"events"}]
    topic.partition_states = [led(0, epoch=1)]
    await handle_request(hosting, request, version=7, configs=configs)
    assert configs.read_topics == [{"events"}]


async def test_stale_controller_epoch_fails_the_whole_request(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(StaleControllerEpoch):
        await send_leader_and_isr(hosting, led(0), controller_epoch=4)
    assert hosting.logs.find(TopicPartition("events", 0)) is None


def send_stop_replica(hosting, *states, fence=None, **fields):
    topics = [STATE(topic_name="events", partition_states=list(states))] if states else []
    request = StopReplicaRequest(controller_id=1, controller_epoch=5, topic_states=topics, **fields)
    version = 4 if states else 0
    return stop_replica.handle(hosting.replicas, fence or Fence(), called(request, version=version))


def stop_state(index, *, delete, epoch=-1):
    return STATE.PartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)


MANY = time_slice.INLINE_ENTRIES_MAX + 1


async def start_until_first_leader(hosting, coroutine):
    """Start the task and return it once the first partition has a leader."""
    task = hosting.background.start(coroutine)
    for _ in range(MANY):
        if list(hosting.replicas):
            break
        await asyncio.sleep(0)
    return task


class TestManyPartitions:
    @pytest.fixture(autouse=True)
    def short_turns(self, monkeypatch):
        monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)

    async def test_yield_to_the_event_loop(self, tmp_path):
        hosting = Hosting(tmp_path)
        task = hosting.background.start(send_leader_and_isr(hosting, *map(led, range(MANY))))
        led_so_far = set()
        while not task.done():
            await asyncio.sleep(0)
            led_so_far.add(len(list(hosting.replicas)))
        (topic,) = task.result().topics
        assert [partition_error.error_code for partition_error in topic.partition_errors] == [
            0
        ] * MANY
        assert len(led_so_far) > MANY / 2
        stop_task = hosting.background.start(
            send_stop_replica(hosting, *(stop_state(i, delete=True) for i in range(MANY)))
        )
        led_so_far.clear()
        while not stop_task.done():
            await asyncio.sleep(0)
            led_so_far.add(len(list(hosting.replicas)))
        assert set(codes(stop_task.result()).values()) == {0}
        assert len(led_so_far) > MANY / 2

    async def test_are_not_led_after_a_newer_controller_epoch_is_seen(self, tmp_path):
        hosting, fence = Hosting(tmp_path), Fence()
        task = await start_until_first_leader(
            hosting, send_leader_and_isr(hosting, *map(led, range(MANY)), fence=fence)
        )
        fence.epoch = 6
        with pytest.raises(StaleControllerEpoch):
            await task
        assert len(list(hosting.replicas)) < MANY

    async def test_are_not_overtaken_by_the_next_controller_request(self, tmp_path):
        hosting, fence = Hosting(tmp_path), Fence()
        task = await start_until_first_leader(
            hosting, send_leader_and_isr(hosting, *map(led, range(MANY)), fence=fence)
        )
        last = MANY - 1
        response = await send_stop_replica(hosting, stop_state(last, delete=False), fence=fence)
        assert codes(response) == {last: 0}
        assert task.done()
        assert hosting.replicas.partition("events", last).leader_state is None
        await task


def codes(response):
    return {
        partition_error.partition_index: partition_error.error_code
        for partition_error in response.partition_errors
    }


async def test_stop_without_delete_is_answered_immediately(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    response = send_stop_replica(hosting, stop_state(0, delete=False), stop_state(9, delete=False))
    assert codes(response) == {0: 0, 9: 0}
    assert codes(send_stop_replica(hosting, stop_state(0, delete=False, epoch=2))) == {
        0: ErrorCode.FENCED_LEADER_EPOCH.code
    }


async def test_stop_with_delete_is_answered_when_the_log_is_renamed(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1)
    waiting = send_stop_replica(hosting, stop_state(0, delete=True), stop_state(1, delete=False))
    assert inspect.isawaitable(waiting)
    assert codes(await waiting) == {0: 0, 1: 0}
    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert "events-0" not in names
    assert "events-1" in names


async def test_oldest_versions_have_one_delete_flag_for_all_partitions(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    partition = StopReplicaRequest.PartitionV0(topic_name="events", partition_index=0)
    response = await send_stop_replica(
        hosting, ungrouped_partitions=[partition], delete_partitions=True
    )
    assert codes(response) == {0: 0}
    assert hosting.logs.find(TopicPartition("events", 0)) is None
