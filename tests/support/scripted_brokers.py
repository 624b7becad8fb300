"""Brokers for the operators' commands that say what a test has them say, or nothing at all."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from odradek.broker.cli.broker_connections import Address
from odradek.broker.cli.cluster_client import ClusterClient
from odradek.protocol.api.describe_configs import DescribeConfigsResponse
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsResponse
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.error_codes import ErrorCode

HOST = "h"


class Silent:
    """In place of an answer: there is none."""


class ScriptedBrokers:
    """In place of connections; ``answers`` has one for a request's class, or one for a broker's.

    A broker is known by its port; an answer may be a failure, or be made of the request.
    """

    def __init__(self, answers: Mapping[Any, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[int, Any]] = []

    async def send(self, address: Address, request: Any, *, version: int) -> Any:
        self.asked.append((address.port, request))
        answer = self.answers.get((address.port, type(request)), self.answers.get(type(request)))
        if isinstance(answer, Callable):
            answer = answer(request)
        if answer is None or isinstance(answer, Silent):
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cluster(self, *ports: int, timeout_s: float = 5.0) -> ClusterClient:
        bootstrap = ",".join(f"{HOST}:{port}" for port in ports)
        return ClusterClient(self, bootstrap, timeout_s=timeout_s)


def metadata(
    brokers: list[int], partitions: Mapping[tuple[str, int], tuple[Any, ...]], controller: int = 0
) -> MetadataResponse:
    """Of partitions: leader, replicas and those in sync.  The port of a broker is its id."""
    topics: dict[str, list[Any]] = {}
    for (topic, number), (leader, replicas, in_sync) in partitions.items():
        topics.setdefault(topic, []).append(
            MetadataResponse.Topic.Partition(
                error_code=0,
                partition_index=number,
                leader_id=leader,
                replica_nodes=[*replicas],
                isr_nodes=[*in_sync],
                offline_replicas=[],
            )
        )
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=each, host=HOST, port=each, rack=None)
            for each in brokers
        ],
        cluster_id="id",
        controller_id=controller,
        topics=[
            MetadataResponse.Topic(error_code=0, name=name, is_internal=False, partitions=found)
            for name, found in topics.items()
        ],
    )


def settings_of_topics(
    request: Any, *, error: ErrorCode = ErrorCode.NONE, text: str = "2"
) -> DescribeConfigsResponse:
    """Whatever was asked is set to this for each topic."""
    answered = DescribeConfigsResponse.Resource
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[
            answered(
                error_code=error.code,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    answered.Config(name=name, value=text, read_only=False, is_sensitive=False)
                    for name in each.configuration_keys
                    if not error.code
                ],
            )
            for each in request.resources
        ],
    )


def moving(*found: tuple[Any, ...]) -> ListPartitionReassignmentsResponse:
    """Of each: topic, partition, replicas and those that are added."""
    listed = ListPartitionReassignmentsResponse
    topics = [
        listed.Topic(
            name=topic,
            partitions=[
                listed.Topic.Partition(
                    partition_index=number,
                    replicas=[*replicas],
                    adding_replicas=[*adding],
                    removing_replicas=[],
                )
            ],
        )
        for topic, number, replicas, adding in found
    ]
    return listed(throttle_time_ms=0, error_code=0, error_message=None, topics=topics)
