"""Tests of controller/answers.py, on the memory store."""

from dataclasses import replace

import pytest

from odradek.controller.answers import Answers
from odradek.controller.broker_link import Answer
from odradek.controller.context import Replica
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import Noted
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.stores import MemoryStores

FAILED = ErrorCode.KAFKA_STORAGE_ERROR.code


class NotedLogDirs:
    def __init__(self):
        self.answers = []

    async def answered(self, answer, response):
        self.answers.append(response)


async def begun():
    scene = await controller_scene(await MemoryStores().open())
    noted, log_dirs = Noted(), NotedLogDirs()
    return Answers(scene.context, log_dirs, noted), noted, log_dirs


def control(kind, **fields):
    return kind(controller_id=0, controller_epoch=EPOCH, broker_epoch=101, **fields)


def stop(error=0, **codes):
    states = StopReplicaRequest.TopicState
    asked = [
        states(
            topic_name=topic,
            partition_states=[
                states.PartitionState(partition_index=0, leader_epoch=0, delete_partition=True)
            ],
        )
        for topic in codes
    ]
    answered = [
        StopReplicaResponse.PartitionError(topic_name=topic, partition_index=0, error_code=code)
        for topic, code in codes.items()
    ]
    request = control(StopReplicaRequest)
    request.topic_states = asked
    response = StopReplicaResponse(error_code=error, partition_errors=answered)
    return Answer(1, 101, request, response)


def led(error=0):
    request = control(LeaderAndIsrRequest, live_leaders=[])
    return Answer(1, 101, request, LeaderAndIsrResponse(error_code=error))


def replica(topic):
    return Replica(TopicPartition(topic, 0), 1)


async def test_what_was_deleted_and_what_could_not_be_are_told_apart():
    answers, noted, _ = await begun()
    await answers.received(stop(t=0, u=FAILED))
    assert noted.calls == [("failed", [replica("u")]), ("deleted", [replica("t")])]


async def test_a_refused_request_has_deleted_nothing():
    answers, noted, _ = await begun()
    await answers.received(stop(ErrorCode.STALE_CONTROLLER_EPOCH.code, t=0))
    assert noted.calls == [("failed", [replica("t")])]


async def test_what_a_broker_can_serve_is_for_the_log_dirs():
    answers, _, log_dirs = await begun()
    await answers.received(led())
    await answers.received(led(error=ErrorCode.STALE_BROKER_EPOCH.code))
    assert len(log_dirs.answers) == 1


@pytest.mark.parametrize("changed", [{"broker_epoch": 100}, {"broker": 9}])
async def test_answers_from_another_time_are_not_heard(changed):
    answers, noted, _ = await begun()
    await answers.received(replace(stop(t=0), **changed))
    other = stop(t=0)
    other.request.controller_epoch = EPOCH - 1
    await answers.received(other)
    assert noted.calls == []


async def test_nothing_follows_from_metadata():
    answers, noted, log_dirs = await begun()
    request = control(UpdateMetadataRequest, live_brokers=[])
    await answers.received(Answer(1, 101, request, UpdateMetadataResponse(error_code=77)))
    assert (noted.calls, log_dirs.answers) == ([], [])
