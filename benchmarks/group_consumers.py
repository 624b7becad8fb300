"""Loads of groups of the consumer protocol (KIP-848), in which the broker assigns partitions.

    heartbeats   heartbeats that change nothing
    formation    members join a group one by one, until each owns and has reported its partitions
    departure    every tenth member leaves, until the others own the partitions of those members
    assignors    the time of a first target assignment, and of the next one after a member has
                 joined; no broker is involved

The members of a formation share CONNECTIONS connections, with one request in flight on each.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from broker_targets import ODRADEK, Target
from client_drivers import BenchmarkSkipped
from group_loads import run_requests
from group_members import encode_request, wait_for_coordinator
from measurement import Load, LoadOptions, Measurement, Metrics, measure_load, temporary_topic
from raw_driver import RequestFailed, connect, receive_response
from raw_loads import LoadShape
from timing import seconds_per_call

from odradek.broker.groups.consumer import range_assignor, uniform_assignor
from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import Uuid

KEY, VERSION = ApiKey.CONSUMER_GROUP_HEARTBEAT, 0
#: After size, correlation id, tags and throttle time.
ERROR_CODE_POSITION = 4 + 4 + 1 + 4
REBALANCE_TIMEOUT_MS = 5 * 60 * 1000
LEAVE_GROUP_MEMBER_EPOCH = -1
UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.code
CONNECTIONS = 20
CONVERGENCE_TIMEOUT_S = 60.0
ASSIGNORS = {"uniform": uniform_assignor.assign, "range": range_assignor.assign}


def consumer_heartbeats(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name, ConsumerMembers(target, name) as group:
            (member,) = group.create_members(1)
            group.send_heartbeats([member])
            heartbeat = encode_request(KEY, VERSION, member.build_heartbeat(is_idle=True))
            return measure_load(
                target,
                lambda: run_requests(
                    target, heartbeat, ERROR_CODE_POSITION, shape, options.seconds
                ),
            )

    return load


def group_formation(members: int, *, partitions: int) -> Load:
    def load(target: Target, _: LoadOptions) -> Measurement:
        with temporary_topic(target, partitions) as name, ConsumerMembers(target, name) as group:
            joined = group.create_members(members)
            metrics = {"join ms": group.converge_ms(joined, partitions)}
            remaining = [each for number, each in enumerate(joined) if number % 10]
            started = time.perf_counter()
            group.leave(joined[::10])
            metrics["leave ms"] = (time.perf_counter() - started) * 1000
            metrics["leave ms"] += group.converge_ms(remaining, partitions)
        driver = f"raw sockets, {members} members, {partitions} partitions"
        return Measurement(driver, metrics)

    return load


def assignors(target: Target, _: LoadOptions) -> Measurement:
    if target.name != ODRADEK:
        raise BenchmarkSkipped("the assignors run without a broker")
    metrics: Metrics = {}
    for members, partitions in ((200, 400), (1_000, 10_000)):
        metrics |= _assignor_times_ms(members, partitions)
    return Measurement("members x partitions", metrics)


def _assignor_times_ms(members: int, partitions: int) -> Metrics:
    counts = {Uuid(bytes(16)): partitions}
    first = {f"m{number}": Subscriber(frozenset(counts)) for number in range(members)}
    calls = {}
    for name, assign in ASSIGNORS.items():
        target = assign(first, counts)
        with_new_member = {
            key: Subscriber(each.subscribed_topic_ids, target[key]) for key, each in first.items()
        }
        with_new_member["new"] = Subscriber(frozenset(counts))
        label = f"{name} {members}x{partitions}"
        calls[f"{label} ms"] = partial(assign, first, counts)
        calls[f"{label}, one more member ms"] = partial(assign, with_new_member, counts)
    return {name: seconds * 1000 for name, seconds in seconds_per_call(calls).items()}


class ConsumerMember:
    """The last state that a member received; it takes ownership of an assignment at once."""

    def __init__(self, group_id: str, topic_name: str) -> None:
        self._group_id = group_id
        self._topic_name = topic_name
        self._id = ""
        self._epoch = 0
        self._owned_partitions: list[Request.TopicPartitions] = []

    @property
    def partition_count(self) -> int:
        return sum(len(each.partitions) for each in self._owned_partitions)

    def build_heartbeat(self, *, epoch: int | None = None, is_idle: bool = False) -> Request:
        """Build a heartbeat with the owned partitions, or without them if the member is idle."""
        fields: dict[str, Any] = {} if is_idle else {"topic_partitions": self._owned_partitions}
        if self._epoch == 0:
            fields["rebalance_timeout_ms"] = REBALANCE_TIMEOUT_MS
            fields["subscribed_topic_names"] = [self._topic_name]
        return Request(
            group_id=self._group_id,
            member_id=self._id,
            member_epoch=self._epoch if epoch is None else epoch,
            **fields,
        )

    def handle_response(self, response: Any) -> None:
        if response.error_code == UNSUPPORTED_VERSION:
            raise BenchmarkSkipped("the broker does not support the consumer protocol")
        if response.error_code:
            raise RequestFailed(f"error code {response.error_code}: {response.error_message}")
        self._id, self._epoch = response.member_id or self._id, response.member_epoch
        if response.assignment is not None:
            self._owned_partitions = [
                Request.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in response.assignment.topic_partitions
            ]


class ConsumerMembers(ExitStack):
    """The members of one group, which share some connections."""

    def __init__(self, target: Target, topic_name: str) -> None:
        super().__init__()
        self._address = target.bootstrap
        self._topic_name = topic_name
        self._group_id = f"consumers-{time.time_ns()}"
        self._connections: list[socket.socket] = []

    def __enter__(self) -> ConsumerMembers:
        wait_for_coordinator(self._address, [self._group_id])
        self._connections = [self.enter_context(connect(self._address)) for _ in range(CONNECTIONS)]
        return self

    def create_members(self, count: int) -> list[ConsumerMember]:
        return [ConsumerMember(self._group_id, self._topic_name) for _ in range(count)]

    def send_heartbeats(self, members: list[ConsumerMember]) -> None:
        self._send_requests(members, [member.build_heartbeat() for member in members])

    def leave(self, members: list[ConsumerMember]) -> None:
        self._send_requests(
            members,
            [
                member.build_heartbeat(epoch=LEAVE_GROUP_MEMBER_EPOCH, is_idle=True)
                for member in members
            ],
        )

    def _send_requests(self, members: list[ConsumerMember], requests: list[Request]) -> None:
        for start in range(0, len(members), CONNECTIONS):
            end = start + CONNECTIONS
            pairs = list(zip(self._connections, members[start:end], strict=False))
            for connection, request in zip(self._connections, requests[start:end], strict=False):
                connection.sendall(encode_request(KEY, VERSION, request))
            for connection, member in pairs:
                member.handle_response(receive_response(connection, KEY, VERSION))

    def converge_ms(self, members: list[ConsumerMember], partitions: int) -> float:
        """Send heartbeats until each member has its share of the partitions; return the time."""
        share, extra = divmod(partitions, len(members))
        shares = [share] * (len(members) - extra) + [share + 1] * extra
        started = time.perf_counter()
        while sorted(member.partition_count for member in members) != shares:
            if time.perf_counter() - started > CONVERGENCE_TIMEOUT_S:
                raise RequestFailed(f"the group has not converged after {CONVERGENCE_TIMEOUT_S} s")
            self.send_heartbeats(members)
        return (time.perf_counter() - started) * 1000
