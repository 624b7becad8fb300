"""Requests for reassignments are answered as Apache Kafka answers them."""

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.reassignment_requests import (
    answer,
    asked_for,
    decide_assignment,
    listing,
    targets,
)
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


async def done(bench, operation, arguments):
    """A step of a recording, as far as it changes what is checked."""
    match operation, arguments.get("api"):
        case "start_broker", _:
            bench.scene.add_brokers([arguments["broker"]])
        case "stop_broker", _:
            await bench.lose(arguments["broker"])
        case "ask", "CREATE_TOPICS":
            for topic in arguments["request"]["topics"]:
                replicas = [each["brokerIds"] for each in topic["assignments"]]
                await bench.add_topic(topic["name"], *replicas)
        case "ask", "DELETE_TOPICS":
            await bench.deletion.request(arguments["request"]["topicNames"])
        case "ask", "ALTER_PARTITION_REASSIGNMENTS":
            await answered(bench, **arguments)


async def answered(bench, *, api: str, version, request, to="controller"):
    message = parsed(api, version, request)
    if api == ALTER:
        response = answer(await bench.reassignments.alter(targets(message)))
    else:
        response = listing(bench.reassignments.listed(asked_for(message)))
    return to_json(response, version)


def parsed(name, version, request):
    return from_json(api(ApiKey[name]).request, version, request)


def comparable(found):
    """Partitions in no order, without the words of messages."""
    match found:
        case dict():
            return {
                key: MESSAGE if key == "errorMessage" and value else comparable(value)
                for key, value in found.items()
            }
        case [{"partitionIndex": _}, *_]:
            return sorted(map(comparable, found), key=lambda each: each["partitionIndex"])
        case list():
            return [comparable(each) for each in found]
    return found


@pytest.mark.parametrize("last", range(len(GROUPS)), ids=[group.name for group in GROUPS])
async def test_every_answer_is_the_one_that_kafka_gives(last):
    bench = await moving_bench(brokers=())
    for group in GROUPS[: last + 1]:
        for step in group.steps:
            await done(bench, **step)
    for case in GROUPS[last].cases:
        if case.api in (ALTER, LIST) and case.to == "controller":
            found = await answered(bench, api=case.api, version=case.version, request=case.request)
            assert comparable(found) == comparable(case.answer), case.name


def test_kafka_was_asked_about_everything():
    asked = [case.api for group in GROUPS for case in group.cases if case.to == "controller"]
    assert asked.count(ALTER) > 20
    assert asked.count(LIST) > 2


async def test_a_node_may_name_brokers_that_are_not_there_and_a_request_may_not():
    bench = await moving_bench([1], brokers=(1, 2))
    context = bench.scene.context
    with pytest.raises(InvalidReplicaAssignment):
        decide_assignment(context, T0, (2, 3))
    decided = decide_assignment(context, T0, (2, 3), may_wait_for_brokers=True)
    assert decided == Assignment((2, 3, 1), adding=(2, 3), removing=(1,))


async def test_as_many_replicas_as_before_where_a_request_says_so():
    bench = await moving_bench([1, 2], brokers=(1, 2, 3, 4))
    refused = await bench.reassignments.alter({T0: (3,)}, may_change_factor=False)
    assert code_of(refused[T0]) == ErrorCode.INVALID_REPLICATION_FACTOR.code
    assert await bench.reassignments.alter({T0: (3, 4)}, may_change_factor=False) == {T0: None}


async def test_as_many_replicas_as_there_would_be_when_the_last_request_was_done():
    bench = await moving_bench([1, 2], brokers=(1, 2, 3, 4))
    await bench.reassignments.alter({T0: (1, 2, 3)})
    context = bench.scene.context
    with pytest.raises(InvalidReplicationFactor):
        decide_assignment(context, T0, (1, 4), may_change_factor=False)
    decided = decide_assignment(context, T0, (1, 3, 4), may_change_factor=False)
    assert decided.target == (1, 3, 4)
    assert decide_assignment(context, T0, None, may_change_factor=False).target == (1, 2)


async def test_mistaken_brokers_are_found_before_their_number():
    bench = await moving_bench([1, 2], brokers=(1, 2))
    for target in ((), (1, 1, 2), (9,)):
        with pytest.raises(InvalidReplicaAssignment):
            decide_assignment(bench.scene.context, T0, target, may_change_factor=False)


def test_an_answer_repeats_whether_the_number_of_replicas_might_change():
    assert answer({}).allow_replication_factor_change
    assert not answer({}, may_change_factor=False).allow_replication_factor_change


async def test_a_broker_about_to_stop_is_given_nothing_new():
    bench = await moving_bench([1], brokers=(1, 2))
    bench.scene.context.shutting_down.add(2)
    with pytest.raises(InvalidReplicaAssignment):
        decide_assignment(bench.scene.context, T0, (1, 2))


def test_an_answer_names_each_topic_once():
    outcomes = {
        TopicPartition("t", 1): None,
        TopicPartition("u", 0): KafkaError("why"),
        TopicPartition("t", 0): None,
    }
    responses = answer(outcomes).responses
    assert [(each.name, len(each.partitions)) for each in responses] == [("t", 2), ("u", 1)]
    assert responses[1].partitions[0].error_message == "why"
