"""Brokers' requests, and those for elections, are answered as Apache Kafka answers them."""

from odradek.controller.preferred_leaders import ElectionKind
from odradek.controller.store import paths
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.controller_answers import saved_groups
from tests.support.controller_scene import topic_id
from tests.support.kafka_json import from_json, to_json
from tests.support.stores import MemoryStores

UP, DOWN = saved_groups()[:2]

#: Where Kafka fails unforeseen, and we do not.
DIFFERENCES = {"shut down: unknown broker": ErrorCode.BROKER_NOT_AVAILABLE.code}

#: A number that means no election is for the broker to refuse, before its controller is asked.
ELSEWHERE = {"elect: unknown type"}


async def begun(cluster):
    await cluster.start_three()
    leaders = {}
    for step in UP.steps[3:]:
        (topic,) = step["arguments"]["request"]["topics"]
        replicas = [each["brokerIds"] for each in topic["assignments"]]
        await cluster.create_topic(topic["name"], *replicas)
        leaders |= {f"{topic['name']}-{number}": at[0] for number, at in enumerate(replicas)}
    await cluster.until_led(leaders)


def cases(group, name):
    return [
        case
        for case in group.cases
        if case.api == name and case.to == "controller" and case.name not in ELSEWHERE
    ]


def known(cluster, recorded):
    """What the recording puts placeholders for."""
    match recorded:
        case dict():
            return {name: known(cluster, value) for name, value in recorded.items()}
        case list():
            return [known(cluster, each) for each in recorded]
        case str() if recorded.startswith("<id 1 of "):
            return str(topic_id(recorded[len("<id 1 of ") : -1]))
        case str() if recorded.startswith("<epoch of "):
            return cluster.controllers[int(recorded[len("<epoch of ") : -1])].broker_epoch
    return recorded


def asked(cluster, case):
    request = api(ApiKey[case.api]).request
    return from_json(request, case.version, known(cluster, case.request))


async def outcome(answer):
    try:
        return await answer
    except KafkaError as refusal:
        return refusal


async def test_changes_of_in_sync_replicas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await begun(cluster)
        for case in cases(UP, "ALTER_PARTITION"):
            request = asked(cluster, case)
            answer = cluster.controller.alter_partition(request, version=case.version)
            response = await outcome(answer)
            expected = known(cluster, case.answer)
            if isinstance(response, KafkaError):
                assert (case.name, code_of(response)) == (case.name, expected["errorCode"])
            else:
                assert (case.name, to_json(response, case.version)) == (case.name, expected)


async def test_controlled_shutdowns():
    async with ControlledCluster(MemoryStores()) as cluster:
        await begun(cluster)
        for case in cases(UP, "CONTROLLED_SHUTDOWN"):
            broker, epoch = case.request["brokerId"], case.request["brokerEpoch"]
            refusal = await outcome(cluster.controller.shut_down(broker, broker_epoch=epoch))
            expected = DIFFERENCES.get(case.name, case.answer["errorCode"])
            assert (case.name, code_of(refusal)) == (case.name, expected)


async def test_producer_ids():
    async with ControlledCluster(MemoryStores()) as cluster:
        await begun(cluster)
        for case in cases(UP, "ALLOCATE_PRODUCER_IDS"):
            request = asked(cluster, case)
            block = await outcome(
                cluster.controller.allocate_producer_ids(
                    request.broker_id, broker_epoch=request.broker_epoch
                )
            )
            if isinstance(block, KafkaError):
                assert (case.name, code_of(block)) == (case.name, case.answer["errorCode"])
            else:
                length = block.block_end - block.block_start + 1
                assert block.block_start == case.answer["producerIdStart"]
                assert length == case.answer["producerIdLen"]


async def check_elections(cluster, group):
    for case in cases(group, "ELECT_LEADERS"):
        request = asked(cluster, case)
        named = request.topic_partitions
        partitions = named and [
            TopicPartition(topic.topic, number) for topic in named for number in topic.partitions
        ]
        kind = ElectionKind(request.election_type)
        results = await cluster.controller.elect_leaders(
            kind, None if named is None else partitions
        )
        codes = {
            str(each): code_of(result if isinstance(result, KafkaError) else None)
            for each, result in results.items()
        }
        assert (case.name, codes) == (case.name, recorded_codes(case.answer))


def recorded_codes(answer):
    """Without those of a topic that another recorded request has made."""
    return {
        f"{topic['topic']}-{each['partitionId']}": each["errorCode"]
        for topic in answer["replicaElectionResults"]
        for each in topic["partitionResult"]
        if topic["topic"] != "hurried"
    }


async def test_elections():
    async with ControlledCluster(MemoryStores()) as cluster:
        await begun(cluster)
        await check_elections(cluster, UP)


async def test_elections_without_a_broker_and_of_a_topic_that_is_going():
    async with ControlledCluster(MemoryStores()) as cluster:
        await begun(cluster)
        epoch = cluster.controllers[3].broker_epoch
        await cluster.controller.shut_down(3, broker_epoch=epoch)
        await cluster.kill(3)
        await cluster.until_acquainted()
        await cluster.any_session.create(paths.topic_to_delete("going"))
        going = TopicPartition("going", 0)
        await cluster.until(lambda: going not in cluster.brokers[1].replicas)
        await check_elections(cluster, DOWN)
