"""The request log: one line for every request at level TRACE.  Kafka: RequestChannel's logger.

    FETCH v17 from 127.0.0.1:9092-127.0.0.1:40022-0 (consumer-1, correlation id 7) took queue 0.000,
    local 0.214, waiting 500.118, encode 0.031 ms: FetchRequest(...) -> FetchResponse(...)

    queue      from the network thread that read the request to the event loop; with one network
               thread there is no queue, but a broker that is starting may delay the request
    local      the handler runs
    waiting    the handler waits until it can respond
    encode     the response is encoded

The log does not contain secret values, nor values of unknown settings, which might be secret.  It
does not contain records either, which consumers of old versions receive as bytes.

Owner: the event loop, except ``mark_queued``, which any thread may call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from copy import copy
from time import perf_counter
from typing import Any, Generic, TypeVar

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.logging_setup import TRACE
from odradek.broker.request import Request, RequestContext
from odradek.broker.settings.dynamic_config_rules import ALL_SETTINGS, split_listener
from odradek.config.types import HIDDEN
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import Message
from odradek.storage.settings import TopicSettings

log = logging.getLogger("kafka.request.logger")

Result = TypeVar("Result")

_ALTER_CONFIGS_APIS = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


def mark_queued(context: RequestContext) -> None:
    """The context's request waits from now on.  A connection has one such request at a time."""
    if log.isEnabledFor(TRACE):
        context.queued_at = perf_counter()


class RequestTimings:
    """The times at which one request reached each stage; created when its handler is called."""

    __slots__ = ("_async_local_s", "_completed_at", "_queued_s", "_returned_at", "_started_at")

    def __init__(self, context: RequestContext) -> None:
        self._started_at = perf_counter()
        self._queued_s = self._started_at - context.queued_at if context.queued_at else 0.0
        context.queued_at = 0.0
        self._async_local_s = 0.0
        self._returned_at = 0.0
        self._completed_at = 0.0

    def mark_returned(self) -> None:
        """The handler has returned an awaitable."""
        self._returned_at = self._returned_at or perf_counter()

    def timed(self, awaitable: Awaitable[Result]) -> Awaitable[Result]:
        """Count the running time of the awaitable as local time."""
        return _TimedAwaitable(self, awaitable)

    def mark_completed(self) -> None:
        self._completed_at = perf_counter()
        self._returned_at = self._returned_at or self._completed_at

    def add_local_time(self, seconds: float) -> None:
        self._async_local_s += seconds

    def log_request(self, request: Request[Any], response: Message | None) -> None:
        """Call this after the response is encoded."""
        log.log(
            TRACE,
            "%s v%d from %s (%s, correlation id %d) took queue %.3f, local %.3f, waiting %.3f, "
            "encode %.3f ms: %s -> %s",
            request.api_key.name,
            request.version,
            request.context.connection_id,
            request.client_id,
            request.correlation_id,
            self._queued_s * 1000,
            (self._returned_at - self._started_at + self._async_local_s) * 1000,
            (self._completed_at - self._returned_at - self._async_local_s) * 1000,
            (perf_counter() - self._completed_at) * 1000,
            without_secrets(request),
            without_records(response),
        )


class _TimedAwaitable(Generic[Result]):
    """An awaitable that measures its running time on the event loop."""

    def __init__(self, timings: RequestTimings, awaitable: Awaitable[Result]) -> None:
        self._timings = timings
        self._steps = awaitable.__await__()

    def __await__(self) -> Generator[Any, Any, Result]:
        return self  # type: ignore[return-value]  # it has the methods of a generator for ``await``

    def __iter__(self) -> _TimedAwaitable[Result]:
        return self

    def __next__(self) -> Any:
        return self._run_timed(self._steps.__next__)

    def throw(self, *error: Any) -> Any:
        return self._run_timed(self._steps.throw, *error)

    def close(self) -> None:
        self._steps.close()

    def _run_timed(self, step: Any, *arguments: Any) -> Any:
        started_at = perf_counter()
        try:
            return step(*arguments)
        finally:
            self._timings.add_local_time(perf_counter() - started_at)


def without_records(response: Message | None) -> Message | None:
    """Return the response with the records replaced by their size."""
    if not isinstance(response, FetchResponse):
        return response
    masked = copy(response)
    masked.responses = [copy(topic) for topic in response.responses]
    for topic in masked.responses:
        topic.partitions = [copy(partition) for partition in topic.partitions]
        for partition in topic.partitions:
            if isinstance(partition.records, bytes | bytearray) and partition.records:
                partition.records = f"{len(partition.records)} bytes".encode()
    return masked


def without_secrets(request: Request[Any]) -> Any:
    """Return the request body with secret values hidden."""
    body = request.body
    if request.api_key in _ALTER_CONFIGS_APIS:
        masked = copy(body)
        masked.resources = [
            _mask_secrets(each, ResourceType.for_id(each.resource_type)) for each in body.resources
        ]
        return masked
    if request.api_key is ApiKey.CREATE_TOPICS:
        masked = copy(body)
        masked.topics = [_mask_secrets(each, ResourceType.TOPIC) for each in body.topics]
        return masked
    return body


def _mask_secrets(resource: Any, kind: ResourceType) -> Any:
    masked = copy(resource)
    masked.configs = [copy(config) for config in resource.configs]
    for config in masked.configs:
        if config.value is not None and _is_secret(kind, config.name):
            config.value = HIDDEN
    return masked


def _is_secret(kind: ResourceType, name: str) -> bool:
    match kind:
        case ResourceType.BROKER:
            setting = ALL_SETTINGS.get(split_listener(name)[1])
        case ResourceType.TOPIC:
            setting = TopicSettings.by_name.get(name)
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            return False
        case _:
            return True
    return setting is None or setting.sensitive
