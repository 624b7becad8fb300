"""Leaders propose who is in sync, and the controller's word is what counts."""

import asyncio

import pytest

from odradek.broker.replicas.in_sync import InSyncReplicas
from odradek.broker.replicas.leader import REFUSED_FOR_MS
from odradek.protocol.api.alter_partition import AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotController
from odradek.protocol.types import Uuid
from tests.support.calls import as_sent
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, records_batch

TOPIC_ID = Uuid(bytes([7] * 16))
Line = AlterPartitionResponse.Topic.Partition


class Scene:
    """Broker 1 leads a partition that 2 and 3 follow; it is the controller's ``answer``."""

    broker_id, broker_epoch = 1, 5

    def __init__(self, path, *, in_sync=(1, 2, 3), topic_id=TOPIC_ID):
        self.hosting = Hosting(path)
        self.now_ms = NOW_MS
        self.alive = {1, 2, 3}
        self.requests = []
        self.answers = []
        self.epochs_told = []
        self.pauses = []
        self._has_asked = asyncio.Event()
        self.in_sync = InSyncReplicas(
            self,
            self,
            lag_max_ms=lambda: 1000,
            now_ms=lambda: self.now_ms,
            start=self.hosting.background.start,
            sleep=self._pause,
        )
        self.hosting.replicas.in_sync = self.in_sync
        self.partition = self.hosting.lead(
            replicas=(1, 2, 3), in_sync=in_sync, topic_id=topic_id, epoch=4
        )
        self.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)

    async def _pause(self, seconds):
        self.pauses.append(seconds)

    def is_alive(self, broker):
        return broker in self.alive

    async def send(self, request, *, version):
        sent = as_sent(request, version=version)
        self.requests.append((version, sent))
        self._has_asked.set()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        (topic,) = sent.topics
        (asked,) = topic.partitions
        error = ErrorCode.NONE if answer is None else answer
        told_epoch = self.epochs_told.pop() if self.epochs_told else asked.partition_epoch + 1
        line = Line(
            partition_index=0,
            error_code=error.code,
            leader_id=1,
            leader_epoch=asked.leader_epoch,
            isr=asked.new_isr or [each.broker_id for each in asked.new_isr_with_epochs],
            partition_epoch=told_epoch,
        )
        told = AlterPartitionResponse.Topic(
            topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[line]
        )
        return AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[told])

    def fetched(self, replica, offset=1, broker_epoch=-1):
        self.partition.follower_fetched(
            replica, offset=offset, start_offset=0, broker_epoch=broker_epoch
        )

    async def settled(self):
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def role(self):
        return self.partition.leader


@pytest.mark.parametrize(("topic_id", "version"), [(TOPIC_ID, 3), (None, 1)])
async def test_a_follower_that_has_caught_up_is_proposed(tmp_path, topic_id, version):
    scene = Scene(tmp_path, in_sync=[1, 2], topic_id=topic_id)
    scene.fetched(2)
    assert scene.partition.high_watermark.value == 1
    scene.fetched(3)
    await scene.settled()
    ((asked_in, request),) = scene.requests
    assert (asked_in, request.broker_id, request.broker_epoch) == (version, 1, 5)
    (line,) = request.topics[0].partitions
    assert (line.leader_epoch, line.partition_epoch) == (4, 4)
    named = [each.broker_id for each in line.new_isr_with_epochs]
    assert (named, line.new_isr) == (([1, 2, 3], []) if topic_id else ([], [1, 2, 3]))
    assert scene.role.in_sync == {1, 2, 3}
    assert scene.role.proposed is None
    assert scene.partition.partition_epoch == 5


async def test_one_that_the_cluster_does_not_know_is_not(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.alive.remove(3)
    scene.fetched(3)
    await scene.settled()
    assert not scene.requests


async def test_laggards_are_proposed_to_go_and_the_watermark_waits_for_the_answer(tmp_path):
    scene = Scene(tmp_path)
    scene.fetched(2)
    scene.now_ms += 1001
    scene.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    scene.fetched(2, 2)
    scene.partition.look_for_laggards()
    assert scene.partition.high_watermark.value == 0
    await scene.settled()
    assert scene.role.in_sync == {1, 2}
    assert scene.partition.high_watermark.value == 2


async def test_all_partitions_are_looked_at(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 1001
    await scene.hosting.replicas.look_for_laggards()
    await scene.settled()
    assert scene.role.in_sync == {1}


async def test_the_controller_is_asked_again_until_it_answers(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [NotController(), ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 3
    assert len(scene.pauses) == 2
    assert scene.role.in_sync == {1, 2, 3}


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
async def test_a_leader_that_knows_less_waits_until_it_is_told(tmp_path, error):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [error]
    scene.fetched(3)
    await scene.settled()
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 1
    assert scene.role.in_sync == {1, 2}
    scene.hosting.lead(replicas=(1, 2, 3), in_sync=[1, 2], topic_id=TOPIC_ID, epoch=5, is_new=False)
    scene.fetched(3)
    await scene.settled()
    assert scene.role.in_sync == {1, 2, 3}


async def test_one_that_is_ineligible_may_be_proposed_again_after_a_while(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [ErrorCode.INELIGIBLE_REPLICA]
    for _ in range(3):
        scene.fetched(3)
        await scene.settled()
    assert scene.role.in_sync == {1, 2}
    assert len(scene.requests) == 1
    scene.now_ms += REFUSED_FOR_MS
    scene.fetched(3)
    await scene.settled()
    assert scene.role.in_sync == {1, 2, 3}


async def test_an_answer_to_who_leads_no_more_changes_nothing(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.fetched(3)
    before = scene.partition.partition_epoch
    scene.partition.follow(2, leader_epoch=5, partition_epoch=9)
    await scene.settled()
    assert scene.partition.partition_epoch == 9 != before
    assert scene.partition.leader is None


async def test_a_controller_that_does_not_answer_is_told_of_once(tmp_path, caplog):
    caplog.set_level("INFO")
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [NotController(), NotController(), ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.answers += [ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 5
    assert caplog.text.count("not altered yet") == 2
    assert "not altered yet: UNKNOWN_SERVER_ERROR" in caplog.text


async def test_a_mistake_loses_no_proposal(tmp_path, caplog):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [ValueError("a mistake"), ValueError("a mistake")]
    scene.fetched(3)
    await scene.settled()
    assert scene.role.in_sync == {1, 2, 3}
    assert caplog.text.count("not altered yet: ValueError('a mistake')") == 1


async def test_the_watermark_does_not_wait_for_one_that_is_gone(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.answers = [ErrorCode.INELIGIBLE_REPLICA]
    scene.fetched(3)
    await scene.settled()
    scene.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    scene.fetched(2, 2)
    assert scene.partition.high_watermark.value == 1
    scene.alive.remove(3)
    scene.fetched(2, 2)
    assert scene.partition.high_watermark.value == 2


async def test_an_answer_of_an_earlier_epoch_is_asked_for_again(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.partition.partition_epoch = 9
    scene.epochs_told = [3]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 2
    assert scene.role.in_sync == {1, 2, 3}
    assert scene.partition.partition_epoch == 10


async def test_what_a_follower_had_in_an_earlier_life_is_proposed_as_of_then(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.fetched(2, broker_epoch=20)
    scene.answers = [NotController()]
    scene.fetched(3, broker_epoch=30)
    scene.fetched(3, offset=0, broker_epoch=31)  # it has lost its records
    await scene.settled()
    told = [
        {each.broker_id: each.broker_epoch for each in line.new_isr_with_epochs}
        for _, request in scene.requests
        for line in request.topics[0].partitions
    ]
    assert told == [{1: 5, 2: 20, 3: 30}] * 2
