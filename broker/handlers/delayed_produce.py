"""Produce responses that wait for the followers or for a flush.  Kafka: DelayedProduce.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.handlers.current_leaders import CurrentLeaders
from odradek.broker.replicas.partition import ACKS_ALL, Partition
from odradek.broker.request import DelayedFuture, DelayedOperation
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import KafkaError
from odradek.storage.unified_log import LogAppendInfo

Topic = ProduceRequest.Topic
PartitionResponse = ProduceResponse.Topic.Partition


class ProducePartitionStatus(NamedTuple):
    """An append whose partition response reports success once the append is acknowledged."""

    partition_response: PartitionResponse
    topic: Topic
    partition: Partition
    append_info: LogAppendInfo


class AttemptedAppends(Protocol):
    """The appends of one request after all of them were attempted."""

    unacknowledged: list[ProducePartitionStatus]
    current_leaders: CurrentLeaders | None

    def set_error(
        self,
        partition_response: PartitionResponse,
        topic: Topic,
        partition: Partition | None,
        error: KafkaError,
        /,
    ) -> None: ...


def delay_response(
    appends: AttemptedAppends, body: ProduceRequest, response: ProduceResponse
) -> DelayedOperation[ProduceResponse]:
    """Delay the response; no task is created if one partition waits only for its replication."""
    if len(appends.unacknowledged) == 1 and body.acks == ACKS_ALL:
        _, _, partition, append_info = appends.unacknowledged[0]
        future = partition.replication_future(append_info, timeout_s=body.timeout_ms / 1000)
        if future is not None:
            build_response = partial(_respond_when_replicated, appends, response)
            return DelayedFuture(future, build_response, completes_on_shutdown=True)
    return DelayedOperation(
        partial(_respond_when_acknowledged, appends, body, response), completes_on_shutdown=True
    )


def _respond_when_replicated(
    appends: AttemptedAppends, response: ProduceResponse, error: Exception | None
) -> ProduceResponse:
    partition_response, topic, partition, append_info = appends.unacknowledged[0]
    try:
        partition.check_replicated(append_info, error)
    except KafkaError as raised:
        appends.set_error(partition_response, topic, partition, raised)
    return add_node_endpoints(appends, response)


def add_node_endpoints(appends: AttemptedAppends, response: ProduceResponse) -> ProduceResponse:
    if appends.current_leaders is not None:
        response.node_endpoints = appends.current_leaders.node_endpoints(
            ProduceResponse.NodeEndpoint
        )
    return response


async def _respond_when_acknowledged(
    appends: AttemptedAppends, body: ProduceRequest, response: ProduceResponse
) -> ProduceResponse:
    """Wait for the partitions one after the other, with a common deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body.timeout_ms / 1000
    for partition_response, topic, partition, append_info in appends.unacknowledged:
        remaining_s = max(0.0, deadline - loop.time())
        try:
            await partition.wait_until_acknowledged(
                append_info, acks=body.acks, timeout_s=remaining_s
            )
        except KafkaError as error:
            appends.set_error(partition_response, topic, partition, error)
    return add_node_endpoints(appends, response)
