"""Fetch: consumers and followers read record batches, or wait for them.

Records are not touched: the response has regions of files.  Only for clients that do not know their
format are they read and converted.

A session that is not there, or a request out of its order, is refused as a whole, without a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked, Promised
from odradek.broker.fetching import down_conversion
from odradek.broker.fetching.closest_replica import Place
from odradek.broker.fetching.fetch_plan import FetchPlan
from odradek.broker.fetching.fetch_sessions import FetchSessions, OpenFetch, replica_in
from odradek.broker.fetching.fetch_wait import FetchWait
from odradek.broker.fetching.partition_reading import (
    PartitionReading,
    Policy,
    Replicas,
    Terms,
    Topics,
)
from odradek.broker.fetching.wanted import Line, Wanted
from odradek.broker.handlers.leader_hints import Cluster as Leaders
from odradek.broker.handlers.leader_hints import LeaderHints
from odradek.broker.turns import FEW
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.errors import FencedLeaderEpoch, KafkaError, NotLeader, code_of

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_FIRST_VERSION_OF_READING_FROM_FOLLOWERS = 11
_FIRST_VERSION_OF_TOPIC_IDS = 13
_FIRST_VERSION_OF_HINTS = 16
_MOVED = frozenset({NotLeader.error.code, FencedLeaderEpoch.error.code})

Topic = FetchResponse.Topic
Endpoint = FetchResponse.NodeEndpoint


class Cluster(Topics, Leaders, Protocol):
    """The part of the cluster's picture that fetching needs."""


def handle(
    replicas: Replicas,
    cluster: Cluster,
    sessions: FetchSessions,
    policy: Policy,
    call: Call[FetchRequest],
) -> FetchResponse | Awaitable[FetchResponse | Awaitable[FetchResponse]]:
    request = call.request
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(f"there is no isolation level {request.isolation_level}")
    reading = PartitionReading(replicas, cluster, policy, _terms(call, policy.fetch_max_bytes))
    if sum([len(topic.partitions) for topic in request.topics]) > FEW:
        return _open_in_turns(cluster, sessions, reading, call)
    try:
        fetch = sessions.open(request, call.version)
    except KafkaError as failure:
        return FetchResponse(error_code=code_of(failure), responses=[])
    plan = FetchPlan(reading, fetch.wanted, fetch.heard)
    answering = Answering(cluster, call, fetch, reading)
    if plan.is_large:
        return answering.answer_in_turns(plan)
    plan.read()
    return answering.answer(plan)


async def _open_in_turns(
    cluster: Cluster, sessions: FetchSessions, reading: PartitionReading, call: Call[FetchRequest]
) -> FetchResponse | Awaitable[FetchResponse]:
    try:
        fetch = await sessions.open_in_turns(call.request, call.version)
    except KafkaError as failure:
        return FetchResponse(error_code=code_of(failure), responses=[])
    answering = Answering(cluster, call, fetch, reading)
    return await answering.answer_in_turns(FetchPlan(reading, fetch.wanted, fetch.heard))


def _terms(call: Call[FetchRequest], max_bytes: int) -> Terms:
    request, replica_id = call.request, replica_in(call.request)
    max_bytes = min(request.max_bytes, max_bytes)
    is_follower = replica_id >= 0
    return Terms(
        version=call.version,
        replica_id=replica_id,
        replica_epoch=request.replica_state.replica_epoch,
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        is_committed=request.isolation_level == READ_COMMITTED and not is_follower,
        needs_leader=is_follower or call.version < _FIRST_VERSION_OF_READING_FROM_FOLLOWERS,
        place=Place(request.rack_id, call.peer.listener),
    )


class Answering:
    """From what was found to the response of one call."""

    __slots__ = ("_call", "_cluster", "_fetch", "_reading")

    def __init__(
        self,
        cluster: Cluster,
        call: Call[FetchRequest],
        fetch: OpenFetch,
        reading: PartitionReading,
    ) -> None:
        self._cluster = cluster
        self._call = call
        self._fetch = fetch
        self._reading = reading

    async def answer_in_turns(self, plan: FetchPlan) -> FetchResponse | Awaitable[FetchResponse]:
        """What wants much to be read."""
        await plan.read_in_turns()
        return self.answer(plan)

    def answer(self, plan: FetchPlan) -> FetchResponse | Awaitable[FetchResponse]:
        """From what was read, now or when there is more."""
        if self._call.request.max_wait_ms > 0 and not plan.is_enough():
            plan.forget()  # it may be dropped before it begins to wait
            return self._answer_later(plan)
        if down_conversion.is_old(self._call.version) and plan.has_records:
            return self.converted(plan)
        return self.response(plan)

    def _answer_later(self, plan: FetchPlan) -> Parked[FetchResponse]:
        timeout_s = self._call.request.max_wait_ms / 1000
        if down_conversion.is_old(self._call.version):
            return Parked(partial(self._convert_later, plan, timeout_s))
        wait = FetchWait(plan, timeout_s)
        if plan.is_large:
            wait.wake()  # others had their turn while it was read
        return Promised(wait.over, partial(self._waited, plan))

    async def _convert_later(self, plan: FetchPlan, timeout_s: float) -> FetchResponse:
        wait = FetchWait(plan, timeout_s)
        wait.wake()  # it was read before it was parked
        failure = await wait.over
        if failure is not None:
            raise failure
        plan.forget_gone()
        return await self.converted(plan)

    def _waited(self, plan: FetchPlan, failure: Exception | None) -> FetchResponse:
        if failure is not None:
            raise failure
        plan.forget_gone()  # since the turn in which it was read
        return self.response(plan)

    async def converted(self, plan: FetchPlan) -> FetchResponse:
        version = self._call.version
        told = self._fetch.settle(plan.found)
        down_conversion.refuse_unreadable(told, version, is_follower=self._is_follower)
        await down_conversion.convert(told, version, self._call.peer)
        return self._response(told)

    def response(self, plan: FetchPlan) -> FetchResponse:
        try:
            told = self._fetch.settle(plan.found)
        except KafkaError as failure:
            plan.forget()
            return FetchResponse(
                error_code=code_of(failure), session_id=self._fetch.session_id, responses=[]
            )
        down_conversion.refuse_unreadable(told, self._call.version, is_follower=self._is_follower)
        return self._response(told)

    @property
    def _is_follower(self) -> bool:
        return self._reading.terms.is_follower

    def _response(self, told: list[Wanted]) -> FetchResponse:
        self._reading.told(told)
        endpoints: list[Endpoint] = []
        if self._call.version >= _FIRST_VERSION_OF_HINTS:
            moved = [each for each in told if each.line and each.line.error_code in _MOVED]
            if moved:
                endpoints = self._hinted(moved)
        return FetchResponse(
            session_id=self._fetch.session_id,
            responses=_by_topic(told),
            node_endpoints=endpoints,
        )

    def _hinted(self, moved: list[Wanted]) -> list[Endpoint]:
        """Their lines name the leaders; where those are."""
        hints = LeaderHints(self._cluster, self._call.peer.listener)
        for wanted in moved:
            assert wanted.line is not None, wanted
            assert wanted.topic is not None, wanted
            leader = hints.leader_of(wanted.topic, wanted.asked.partition, wanted.partition)
            wanted.line.current_leader = Line.LeaderIdAndEpoch(
                leader_id=leader.id, leader_epoch=leader.epoch
            )
        return hints.endpoints(Endpoint)


def _by_topic(told: Iterable[Wanted]) -> list[Topic]:
    """In order: a topic that comes up again later is named again."""
    topics: list[Topic] = []
    previous: tuple[str | None, bytes] | None = None
    for wanted in told:
        line, wanted.line = wanted.line, None  # it would hold a file open
        assert line is not None, wanted
        this = (wanted.topic, wanted.topic_id)
        if this != previous:
            topics.append(Topic(topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=[]))
            previous = this
        topics[-1].partitions.append(line)
    return topics


def refused(call: Call[FetchRequest], failure: KafkaError) -> FetchResponse:
    """All of it, for one reason: by lines too in versions whose clients may look only there."""
    request, code = call.request, code_of(failure)
    has_lines = call.version < _FIRST_VERSION_OF_TOPIC_IDS
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            Topic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    Line(
                        partition_index=asked.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=None,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in (request.topics if has_lines else ())
        ],
    )
