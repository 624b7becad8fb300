"""Tests of controller/reassignment_requests.py, with Apache Kafka's recorded responses."""

import pytest

from odradek.controller.reassignment_requests import (
    build_alter_response,
    build_list_response,
    parse_alter_request,
    parse_list_request,
    plan_reassignment,
)
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    code_of,
)
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from tests.support.controller_answers import saved_groups
from tests.support.kafka_json import from_json, to_json
from tests.support.moving_scene import T0, moving_bench
from tests.support.raw_answer import MESSAGE

GROUPS = saved_groups()
ALTER, LIST = "ALTER_PARTITION_REASSIGNMENTS", "LIST_PARTITION_REASSIGNMENTS"


async def apply_step(bench, operation, arguments):
    """Apply a step of a recording as far as these tests need it."""
    match operation, arguments.get("api"):
        case "start_broker", _:
            bench.scene.add_brokers([arguments["broker"]])
        case "stop_broker", _:
            await bench.lose(arguments["broker"])
        case "ask", "CREATE_TOPICS":
            for topic in arguments["request"]["topics"]:
                replicas = [assignment["brokerIds"] for assignment in topic["assignments"]]
                await bench.add_topic(topic["name"], *replicas)
        case "ask", "DELETE_TOPICS":
            await bench.deletion.enqueue_topics_for_deletion(arguments["request"]["topicNames"])
        case "ask", "ALTER_PARTITION_REASSIGNMENTS":
            await send_request(bench, **arguments)


async def send_request(bench, *, api: str, version, request, to="controller"):
    message = parse_request(api, version, request)
    if api == ALTER:
        response = build_alter_response(
            await bench.reassignments.alter_partition_reassignments(parse_alter_request(message))
        )
    else:
        response = build_list_response(
            bench.reassignments.list_partition_reassignments(parse_list_request(message))
        )
    return to_json(response, version)


def parse_request(name, version, request):
    return from_json(api(ApiKey[name]).request, version, request)


def comparable(response):
    """The response with sorted partitions and without the texts of messages."""
    match response:
        case dict():
            return {
                key: MESSAGE if key == "errorMessage" and value else comparable(value)
                for key, value in response.items()
            }
        case [{"partitionIndex": _}, *_]:
            return sorted(
                map(comparable, response), key=lambda partition: partition["partitionIndex"]
            )
        case list():
            return [comparable(value) for value in response]
    return response


@pytest.mark.parametrize("last", range(len(GROUPS)), ids=[group.name for group in GROUPS])
async def test_responses_equal_kafkas(last):
    bench = await moving_bench(brokers=())
    for group in GROUPS[: last + 1]:
        for step in group.steps:
            await apply_step(bench, **step)
    for case in GROUPS[last].cases:
        if case.api in (ALTER, LIST) and case.to == "controller":
            response = await send_request(
                bench, api=case.api, version=case.version, request=case.request
            )
            assert comparable(response) == comparable(case.answer), case.name


def test_recording_contains_both_apis():
    apis = [case.api for group in GROUPS for case in group.cases if case.to == "controller"]
    assert apis.count(ALTER) > 20
    assert apis.count(LIST) > 2


async def test_offline_brokers_are_rejected_by_request_and_allowed_by_znode():
    bench = await moving_bench([1], brokers=(1, 2))
    context = bench.scene.context
    with pytest.raises(InvalidReplicaAssignment):
        plan_reassignment(context, T0, (2, 3))
    plan = plan_reassignment(context, T0, (2, 3), allow_offline_brokers=True)
    assert plan == ReplicaAssignment((2, 3, 1), adding_replicas=(2, 3), removing_replicas=(1,))


async def test_replication_factor_change_is_rejected_if_not_allowed():
    bench = await moving_bench([1, 2], brokers=(1, 2, 3, 4))
    errors = await bench.reassignments.alter_partition_reassignments(
        {T0: (3,)}, allow_replication_factor_change=False
    )
    assert code_of(errors[T0]) == ErrorCode.INVALID_REPLICATION_FACTOR.code
    assert await bench.reassignments.alter_partition_reassignments(
        {T0: (3, 4)}, allow_replication_factor_change=False
    ) == {T0: None}


async def test_replication_factor_is_compared_with_the_target_in_progress():
    bench = await moving_bench([1, 2], brokers=(1, 2, 3, 4))
    await bench.reassignments.alter_partition_reassignments({T0: (1, 2, 3)})
    context = bench.scene.context
    with pytest.raises(InvalidReplicationFactor):
        plan_reassignment(context, T0, (1, 4), allow_replication_factor_change=False)
    plan = plan_reassignment(context, T0, (1, 3, 4), allow_replication_factor_change=False)
    assert plan.target_replicas == (1, 3, 4)
    assert plan_reassignment(
        context, T0, None, allow_replication_factor_change=False
    ).target_replicas == (1, 2)


async def test_invalid_brokers_are_rejected_before_the_replication_factor():
    bench = await moving_bench([1, 2], brokers=(1, 2))
    for target in ((), (1, 1, 2), (9,)):
        with pytest.raises(InvalidReplicaAssignment):
            plan_reassignment(
                bench.scene.context, T0, target, allow_replication_factor_change=False
            )


def test_response_repeats_allow_replication_factor_change():
    assert build_alter_response({}).allow_replication_factor_change
    assert not build_alter_response(
        {}, allow_replication_factor_change=False
    ).allow_replication_factor_change


async def test_shutting_down_broker_is_rejected_as_target():
    bench = await moving_bench([1], brokers=(1, 2))
    bench.scene.context.shutting_down_broker_ids.add(2)
    with pytest.raises(InvalidReplicaAssignment):
        plan_reassignment(bench.scene.context, T0, (1, 2))


def test_response_contains_each_topic_once():
    outcomes = {
        TopicPartition("t", 1): None,
        TopicPartition("u", 0): KafkaError("why"),
        TopicPartition("t", 0): None,
    }
    responses = build_alter_response(outcomes).responses
    assert [(topic.name, len(topic.partitions)) for topic in responses] == [("t", 2), ("u", 1)]
    assert responses[1].partitions[0].error_message == "why"
