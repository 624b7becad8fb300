"""The controller responds to broker and election requests as Apache Kafka does."""

from odradek.controller.replica_leader_elections import ElectionType
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

#: Kafka returns an unexpected server error here. We return the specific error.
DIFFERENCES = {"shut down: unknown broker": ErrorCode.BROKER_NOT_AVAILABLE.code}

#: The broker rejects an unknown election type before it calls its controller.
REJECTED_BY_BROKER = {"elect: unknown type"}


async def start_cluster(cluster):
    await cluster.start_three()
    leaders = {}
    for step in UP.steps[3:]:
        (topic,) = step["arguments"]["request"]["topics"]
        replicas = [assignment["brokerIds"] for assignment in topic["assignments"]]
        await cluster.create_topic(topic["name"], *replicas)
        leaders |= {
            f"{topic['name']}-{number}": replica_ids[0]
            for number, replica_ids in enumerate(replicas)
        }
    await cluster.until_led(leaders)


def cases(group, name):
    return [
        case
        for case in group.cases
        if case.api == name and case.to == "controller" and case.name not in REJECTED_BY_BROKER
    ]


def resolve(cluster, recorded):
    """Replace the placeholders of the recording by values of this cluster."""
    match recorded:
        case dict():
            return {name: resolve(cluster, value) for name, value in recorded.items()}
        case list():
            return [resolve(cluster, value) for value in recorded]
        case str() if recorded.startswith("<id 1 of "):
            return str(topic_id(recorded[len("<id 1 of ") : -1]))
        case str() if recorded.startswith("<epoch of "):
            return cluster.controllers[int(recorded[len("<epoch of ") : -1])].broker_epoch
    return recorded


def build_request(cluster, case):
    request = api(ApiKey[case.api]).request
    return from_json(request, case.version, resolve(cluster, case.request))


async def outcome(call):
    try:
        return await call
    except KafkaError as error:
        return error


async def test_alter_partition_responses_equal_kafkas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        for case in cases(UP, "ALTER_PARTITION"):
            request = build_request(cluster, case)
            call = cluster.controller.alter_partition(request, version=case.version)
            response = await outcome(call)
            expected = resolve(cluster, case.answer)
            if isinstance(response, KafkaError):
                assert (case.name, code_of(response)) == (case.name, expected["errorCode"])
            else:
                assert (case.name, to_json(response, case.version)) == (case.name, expected)


async def test_controlled_shutdown_responses_equal_kafkas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        for case in cases(UP, "CONTROLLED_SHUTDOWN"):
            broker, epoch = case.request["brokerId"], case.request["brokerEpoch"]
            error = await outcome(
                cluster.controller.controlled_shutdown(broker, broker_epoch=epoch)
            )
            expected = DIFFERENCES.get(case.name, case.answer["errorCode"])
            assert (case.name, code_of(error)) == (case.name, expected)


async def test_allocate_producer_ids_responses_equal_kafkas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        for case in cases(UP, "ALLOCATE_PRODUCER_IDS"):
            request = build_request(cluster, case)
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
        request = build_request(cluster, case)
        topic_partitions = request.topic_partitions
        partitions = topic_partitions and [
            TopicPartition(topic.topic, number)
            for topic in topic_partitions
            for number in topic.partitions
        ]
        kind = ElectionType(request.election_type)
        results = await cluster.controller.elect_leaders(
            kind, None if topic_partitions is None else partitions
        )
        codes = {
            str(partition): code_of(result if isinstance(result, KafkaError) else None)
            for partition, result in results.items()
        }
        assert (case.name, codes) == (case.name, recorded_codes(case.answer))


def recorded_codes(response):
    """Error codes by partition, without the topic that another recorded request created."""
    return {
        f"{topic['topic']}-{result['partitionId']}": result["errorCode"]
        for topic in response["replicaElectionResults"]
        for result in topic["partitionResult"]
        if topic["topic"] != "hurried"
    }


async def test_elect_leaders_responses_equal_kafkas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        await check_elections(cluster, UP)


async def test_elect_leaders_responses_with_failed_broker_and_deleted_topic_equal_kafkas():
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        epoch = cluster.controllers[3].broker_epoch
        await cluster.controller.controlled_shutdown(3, broker_epoch=epoch)
        await cluster.kill(3)
        await cluster.until_acquainted()
        await cluster.any_session.create(paths.topic_to_delete("going"))
        deleted = TopicPartition("going", 0)
        await cluster.until(lambda: deleted not in cluster.brokers[1].replicas)
        await check_elections(cluster, DOWN)
