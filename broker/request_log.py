"""The request log: a line for every request at level TRACE, for whoever asks for it.

    FETCH v17 from 127.0.0.1:9092-127.0.0.1:40022-0 (consumer-1, correlation id 7) took queue 0.000,
    local 0.214, waiting 500.118, encode 0.031 ms: FetchRequest(...) -> FetchResponse(...)

    queue      between the thread that read it and the loop that answers it; with one network thread
               there is no queue, but a broker that starts may hold it back
    local      the handler at work
    waiting    the handler asleep, until there is something to answer
    encode     the answer made into bytes

Values that are secret, or that might be since nobody knows their names, are not written; nor are
records, which old consumers are sent as bytes.

Owner: the event loop, but for ``stamp``, which any thread may call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from copy import copy
from time import perf_counter
from typing import Any, Generic, TypeVar

from odradek.broker.admin.resources import ResourceType
from odradek.broker.call import Call, Peer
from odradek.broker.logs import TRACE
from odradek.broker.settings.updates import TYPED, split_listener
from odradek.config.kinds import HIDDEN
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import Message
from odradek.storage.settings import TopicSettings

log = logging.getLogger("odradek.request")

Awaited = TypeVar("Awaited")

_ALTERING = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


def stamp(peer: Peer) -> None:
    """Its request has to wait from now on.  (A peer has one at a time.)"""
    if log.isEnabledFor(TRACE):
        peer.queued_at = perf_counter()


class Stages:
    """When one request came to where; made as its handler is called."""

    __slots__ = ("_answered", "_begun", "_queued_s", "_returned", "_turns_s")

    def __init__(self, peer: Peer) -> None:
        self._begun = perf_counter()
        self._queued_s = self._begun - peer.queued_at if peer.queued_at else 0.0
        peer.queued_at = 0.0
        self._turns_s = 0.0
        self._returned = 0.0
        self._answered = 0.0

    def returned(self) -> None:
        """The handler has, with what is to be awaited."""
        self._returned = self._returned or perf_counter()

    def later(self, waiting: Awaitable[Awaited]) -> Awaitable[Awaited]:
        """What it does in its turns is still local."""
        return _Turns(self, waiting)

    def answered(self) -> None:
        self._answered = perf_counter()
        self._returned = self._returned or self._answered

    def add_turn(self, seconds: float) -> None:
        self._turns_s += seconds

    def write(self, call: Call[Any], answer: Message | None) -> None:
        """The answer has been encoded."""
        log.log(
            TRACE,
            "%s v%d from %s (%s, correlation id %d) took queue %.3f, local %.3f, waiting %.3f, "
            "encode %.3f ms: %s -> %s",
            call.key.name,
            call.version,
            call.peer.connection_id,
            call.client_id,
            call.correlation_id,
            self._queued_s * 1000,
            (self._returned - self._begun + self._turns_s) * 1000,
            (self._answered - self._returned - self._turns_s) * 1000,
            (perf_counter() - self._answered) * 1000,
            without_secrets(call),
            without_records(answer),
        )


class _Turns(Generic[Awaited]):
    """An awaitable whose turns on the loop are timed."""

    def __init__(self, stages: Stages, waiting: Awaitable[Awaited]) -> None:
        self._stages = stages
        self._steps = waiting.__await__()

    def __await__(self) -> Generator[Any, Any, Awaited]:
        return self  # type: ignore[return-value]  # all that ``await`` asks of a generator

    def __iter__(self) -> _Turns[Awaited]:
        return self

    def __next__(self) -> Any:
        return self._timed(self._steps.__next__)

    def throw(self, *failure: Any) -> Any:
        return self._timed(self._steps.throw, *failure)

    def close(self) -> None:
        self._steps.close()

    def _timed(self, step: Any, *arguments: Any) -> Any:
        begun = perf_counter()
        try:
            return step(*arguments)
        finally:
            self._stages.add_turn(perf_counter() - begun)


def without_records(answer: Message | None) -> Message | None:
    """The answer as it may be written."""
    if not isinstance(answer, FetchResponse):
        return answer
    shown = copy(answer)
    shown.responses = [copy(topic) for topic in answer.responses]
    for topic in shown.responses:
        topic.partitions = [copy(line) for line in topic.partitions]
        for line in topic.partitions:
            if isinstance(line.records, bytes | bytearray) and line.records:
                line.records = f"{len(line.records)} bytes".encode()
    return shown


def without_secrets(call: Call[Any]) -> Any:
    """The request as it may be written."""
    request = call.request
    if call.key in _ALTERING:
        shown = copy(request)
        shown.resources = [
            _masked(each, ResourceType.of(each.resource_type)) for each in request.resources
        ]
        return shown
    if call.key is ApiKey.CREATE_TOPICS:
        shown = copy(request)
        shown.topics = [_masked(each, ResourceType.TOPIC) for each in request.topics]
        return shown
    return request


def _masked(holder: Any, kind: ResourceType) -> Any:
    shown = copy(holder)
    shown.configs = [copy(each) for each in holder.configs]
    for each in shown.configs:
        if each.value is not None and _is_secret(kind, each.name):
            each.value = HIDDEN
    return shown


def _is_secret(kind: ResourceType, name: str) -> bool:
    match kind:
        case ResourceType.BROKER:
            declared = TYPED.get(split_listener(name)[1])
        case ResourceType.TOPIC:
            declared = TopicSettings.by_name.get(name)
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            return False
        case _:
            return True
    return declared is None or declared.sensitive
