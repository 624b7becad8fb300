"""Brokers for the operators' commands that say what a test has them say, or nothing at all."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from odradek.broker.cli.direct import Address
from odradek.broker.cli.operated import OperatedCluster
from odradek.protocol.api.metadata import MetadataResponse

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

    async def ask(self, address: Address, request: Any, *, version: int) -> Any:
        self.asked.append((address.port, request))
        answer = self.answers.get((address.port, type(request)), self.answers.get(type(request)))
        if isinstance(answer, Callable):
            answer = answer(request)
        if answer is None or isinstance(answer, Silent):
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cluster(self, *ports: int, timeout_s: float = 5.0) -> OperatedCluster:
        bootstrap = ",".join(f"{HOST}:{port}" for port in ports)
        return OperatedCluster(self, bootstrap, timeout_s=timeout_s)


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
