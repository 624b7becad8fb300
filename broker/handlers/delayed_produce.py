"""Answers to Produce that have to wait: for the followers, or for the disk.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.call import Parked, Promised
from odradek.broker.handlers.leader_hints import LeaderHints
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import KafkaError
from odradek.storage.log import Written

Topic = ProduceRequest.Topic
Line = ProduceResponse.Topic.Partition


class Waiting(NamedTuple):
    """A line that tells of success, once that is certain."""

    line: Line
    topic: Topic
    partition: Partition
    written: Written


class Appended(Protocol):
    """The appends of one request, all of which have been tried."""

    waiting: list[Waiting]
    hints: LeaderHints | None

    def failed(
        self, line: Line, topic: Topic, partition: Partition | None, failure: KafkaError, /
    ) -> None: ...


def parked(
    appending: Appended, request: ProduceRequest, response: ProduceResponse
) -> Parked[ProduceResponse]:
    """Without a task where one partition is waited for, until it is replicated."""
    if len(appending.waiting) == 1 and request.acks == ALL_IN_SYNC:
        _, _, partition, written = appending.waiting[0]
        replicated = partition.replicated(written, timeout_s=request.timeout_ms / 1000)
        if replicated is not None:
            finish = partial(_answer_replicated, appending, response)
            return Promised(replicated, finish, ends_alone=True)
    return Parked(partial(_answer_later, appending, request, response), ends_alone=True)


def _answer_replicated(
    appending: Appended, response: ProduceResponse, failure: Exception | None
) -> ProduceResponse:
    line, topic, partition, written = appending.waiting[0]
    try:
        partition.check_replicated(written, failure)
    except KafkaError as refused:
        appending.failed(line, topic, partition, refused)
    return hinted(appending, response)


def hinted(appending: Appended, response: ProduceResponse) -> ProduceResponse:
    if appending.hints is not None:
        response.node_endpoints = appending.hints.endpoints(ProduceResponse.NodeEndpoint)
    return response


async def _answer_later(
    appending: Appended, request: ProduceRequest, response: ProduceResponse
) -> ProduceResponse:
    """Each in turn: what the first waited for, the others had time for as well."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    for line, topic, partition, written in appending.waiting:
        left_s = max(0.0, deadline - loop.time())
        try:
            await partition.wait_until_acknowledged(written, acks=request.acks, timeout_s=left_s)
        except KafkaError as failure:
            appending.failed(line, topic, partition, failure)
    return hinted(appending, response)
