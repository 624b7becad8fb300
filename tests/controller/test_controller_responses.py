"""Tests of controller/controller_responses.py with the memory store."""

from dataclasses import replace

import pytest

from odradek.controller.controller_channel import BrokerResponse
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_responses import ControllerResponseHandler
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import Noted
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.stores import MemoryStores

FAILED = ErrorCode.KAFKA_STORAGE_ERROR.code


class RecordingLogDirs:
    def __init__(self):
        self.responses = []

    async def process_leader_and_isr_response(self, broker_response, response):
        self.responses.append(response)


async def start_handler():
    scene = await controller_scene(await MemoryStores().open())
    recorder, log_dirs = Noted(), RecordingLogDirs()
    return (
        ControllerResponseHandler(scene.context, log_dirs, recorder),
        recorder,
        log_dirs,
    )


def control_request(kind, **fields):
    return kind(controller_id=0, controller_epoch=EPOCH, broker_epoch=101, **fields)


def stop_replica_response(error=0, **codes):
    states = StopReplicaRequest.TopicState
    topic_states = [
        states(
            topic_name=topic,
            partition_states=[
                states.PartitionState(partition_index=0, leader_epoch=0, delete_partition=True)
            ],
        )
        for topic in codes
    ]
    partition_errors = [
        StopReplicaResponse.PartitionError(topic_name=topic, partition_index=0, error_code=code)
        for topic, code in codes.items()
    ]
    request = control_request(StopReplicaRequest)
    request.topic_states = topic_states
    response = StopReplicaResponse(error_code=error, partition_errors=partition_errors)
    return BrokerResponse(1, 101, request, response)


def leader_and_isr_response(error=0):
    request = control_request(LeaderAndIsrRequest, live_leaders=[])
    return BrokerResponse(1, 101, request, LeaderAndIsrResponse(error_code=error))


def replica(topic):
    return PartitionAndReplica(TopicPartition(topic, 0), 1)


async def test_stop_replica_response_separates_deleted_from_failed_replicas():
    handler, recorder, _ = await start_handler()
    await handler.handle(stop_replica_response(t=0, u=FAILED))
    assert recorder.calls == [("failed", [replica("u")]), ("deleted", [replica("t")])]


async def test_stop_replica_response_with_top_level_error_fails_all_replicas():
    handler, recorder, _ = await start_handler()
    await handler.handle(stop_replica_response(ErrorCode.STALE_CONTROLLER_EPOCH.code, t=0))
    assert recorder.calls == [("failed", [replica("t")])]


async def test_successful_leader_and_isr_response_goes_to_log_dir_failures():
    handler, _, log_dirs = await start_handler()
    await handler.handle(leader_and_isr_response())
    await handler.handle(leader_and_isr_response(error=ErrorCode.STALE_BROKER_EPOCH.code))
    assert len(log_dirs.responses) == 1


@pytest.mark.parametrize("changed", [{"broker_epoch": 100}, {"broker_id": 9}])
async def test_response_of_stale_broker_or_controller_epoch_is_ignored(changed):
    handler, recorder, _ = await start_handler()
    await handler.handle(replace(stop_replica_response(t=0), **changed))
    other = stop_replica_response(t=0)
    other.request.controller_epoch = EPOCH - 1
    await handler.handle(other)
    assert recorder.calls == []


async def test_update_metadata_response_is_ignored():
    handler, recorder, log_dirs = await start_handler()
    request = control_request(UpdateMetadataRequest, live_brokers=[])
    await handler.handle(BrokerResponse(1, 101, request, UpdateMetadataResponse(error_code=77)))
    assert (recorder.calls, log_dirs.responses) == ([], [])
