"""Loads of groups of the consumer protocol (KIP-848), to whose members the broker assigns.

    heartbeats   that change nothing
    gathering    members join a group one by one, until all have told and been told what they have
    departure    every tenth member leaves, until the others have what those had
    assignors    how long a first target takes, and the next when a member has joined: no broker

Those that gather are on CONNECTIONS connections, each with one request at a time.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from broker_clients import LeftOut
from broker_figures import Figures, Load, Measured, Tools, costed, topic
from broker_raw import Refused, connect, next_answer
from broker_raw_loads import Shape
from broker_sides import OURS, Side
from group_loads import answered
from group_members import frame, wait_until_coordinated
from measure import seconds_per_call

from odradek.broker.groups.consumer import assign_range, assign_uniform
from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import Uuid

KEY, VERSION = ApiKey.CONSUMER_GROUP_HEARTBEAT, 0
#: Behind size, correlation id, tags and throttling.
VERDICT = 4 + 4 + 1 + 4
REBALANCE_TIMEOUT_MS = 5 * 60 * 1000
LEAVE = -1
UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.code
CONNECTIONS = 20
SETTLED_S = 60.0
ASSIGNORS = {"uniform": assign_uniform.assign, "range": assign_range.assign}


def consumer_heartbeats(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name, Crowd(side, name) as crowd:
            (member,) = crowd.members(1)
            crowd.beat([member])
            beat = frame(KEY, VERSION, member.says(is_idle=True))
            return costed(side, lambda: answered(side, beat, VERDICT, shape, tools.seconds))

    return load


def gathering(members: int, *, partitions: int) -> Load:
    def load(side: Side, _: Tools) -> Measured:
        with topic(side, partitions) as name, Crowd(side, name) as crowd:
            gathered = crowd.members(members)
            figures = {"gathering ms": crowd.settled_ms(gathered, partitions)}
            staying = [each for number, each in enumerate(gathered) if number % 10]
            begun = time.perf_counter()
            crowd.leave(gathered[::10])
            figures["departure ms"] = (time.perf_counter() - begun) * 1000
            figures["departure ms"] += crowd.settled_ms(staying, partitions)
        driver = f"raw sockets, {members} members, {partitions} partitions"
        return Measured(driver, figures)

    return load


def assignors(side: Side, _: Tools) -> Measured:
    if side.name != OURS:
        raise LeftOut("no broker is asked")
    figures: Figures = {}
    for members, partitions in ((200, 400), (1_000, 10_000)):
        figures |= _assigned_ms(members, partitions)
    return Measured("members x partitions", figures)


def _assigned_ms(members: int, partitions: int) -> Figures:
    counts = {Uuid(bytes(16)): partitions}
    first = {f"m{number}": Subscriber(frozenset(counts)) for number in range(members)}
    calls = {}
    for name, assign in ASSIGNORS.items():
        target = assign(first, counts)
        again = {key: Subscriber(each.topics, target[key]) for key, each in first.items()}
        again["new"] = Subscriber(frozenset(counts))
        label = f"{name} {members}x{partitions}"
        calls[f"{label} ms"] = partial(assign, first, counts)
        calls[f"{label}, one more ms"] = partial(assign, again, counts)
    return {name: seconds * 1000 for name, seconds in seconds_per_call(calls).items()}


class ConsumerMember:
    """What it was told last; it has at once what it is told to have."""

    def __init__(self, group_id: str, topic_name: str) -> None:
        self._group_id = group_id
        self._topic_name = topic_name
        self._id = ""
        self._epoch = 0
        self._has: list[Request.TopicPartitions] = []

    @property
    def size(self) -> int:
        return sum(len(each.partitions) for each in self._has)

    def says(self, *, epoch: int | None = None, is_idle: bool = False) -> Request:
        """What it has, unless it is idle."""
        said: dict[str, Any] = {} if is_idle else {"topic_partitions": self._has}
        if self._epoch == 0:
            said["rebalance_timeout_ms"] = REBALANCE_TIMEOUT_MS
            said["subscribed_topic_names"] = [self._topic_name]
        return Request(
            group_id=self._group_id,
            member_id=self._id,
            member_epoch=self._epoch if epoch is None else epoch,
            **said,
        )

    def hears(self, answer: Any) -> None:
        if answer.error_code == UNSUPPORTED_VERSION:
            raise LeftOut("it does not serve the consumer protocol")
        if answer.error_code:
            raise Refused(f"error code {answer.error_code}: {answer.error_message}")
        self._id, self._epoch = answer.member_id or self._id, answer.member_epoch
        if answer.assignment is not None:
            self._has = [
                Request.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]


class Crowd(ExitStack):
    """Members of one group, which share some connections."""

    def __init__(self, side: Side, topic_name: str) -> None:
        super().__init__()
        self._address = side.bootstrap
        self._topic_name = topic_name
        self._group_id = f"consumers-{time.time_ns()}"
        self._connections: list[socket.socket] = []

    def __enter__(self) -> Crowd:
        wait_until_coordinated(self._address, [self._group_id])
        self._connections = [self.enter_context(connect(self._address)) for _ in range(CONNECTIONS)]
        return self

    def members(self, count: int) -> list[ConsumerMember]:
        return [ConsumerMember(self._group_id, self._topic_name) for _ in range(count)]

    def beat(self, members: list[ConsumerMember]) -> None:
        self._say(members, [member.says() for member in members])

    def leave(self, members: list[ConsumerMember]) -> None:
        self._say(members, [member.says(epoch=LEAVE, is_idle=True) for member in members])

    def _say(self, members: list[ConsumerMember], requests: list[Request]) -> None:
        for start in range(0, len(members), CONNECTIONS):
            end = start + CONNECTIONS
            pairs = list(zip(self._connections, members[start:end], strict=False))
            for connection, request in zip(self._connections, requests[start:end], strict=False):
                connection.sendall(frame(KEY, VERSION, request))
            for connection, member in pairs:
                member.hears(next_answer(connection, KEY, VERSION))

    def settled_ms(self, members: list[ConsumerMember], partitions: int) -> float:
        """Until each has its share."""
        least, more = divmod(partitions, len(members))
        shares = [least] * (len(members) - more) + [least + 1] * more
        begun = time.perf_counter()
        while sorted(member.size for member in members) != shares:
            if time.perf_counter() - begun > SETTLED_S:
                raise Refused(f"not shared after {SETTLED_S} s")
            self.beat(members)
        return (time.perf_counter() - begun) * 1000
