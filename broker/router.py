"""From the bytes of a request to the parts of its answer: what every API has in common.

    header      key, version, correlation id, client
    version     one that is not served closes the connection; only ApiVersions is answered, as v0
    decode      a frame that is no request closes the connection
    handle      by the handler in routes.py, at once or later
    refusals    a KafkaError of the whole request becomes its answer; anything else is our mistake,
                logged with its traceback, and UNKNOWN_SERVER_ERROR for the client
    encode      size, header, body; file regions as they are

All of it can be seen in the request log (request_log.py).

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from odradek.broker.call import Call, Disconnect, Parked, Parts, Peer, Promised
from odradek.broker.handlers.refusals import words
from odradek.broker.logs import TRACE
from odradek.broker.request_log import Stages
from odradek.broker.request_log import log as requests_log
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api.api_versions import ApiVersionsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import Decoder, prefix_decoder
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.field import Versions
from odradek.protocol.header import (
    decode_request_header,
    key_and_version,
    read_ids,
    request_header_version,
    response_frame,
)
from odradek.protocol.registry import api
from odradek.protocol.schema import Message, absent_value

log = logging.getLogger(__name__)
_FAILED = "%s v%d of %s failed"
_FORESEEN = (KafkaError, Disconnect, SessionExpired)

Answer = Message | Awaitable["Answer"] | None
PartsLater = Awaitable["Parts | PartsLater | None"]
Handle = Callable[[Call[Any]], Answer]
Refuse = Callable[[Call[Any], KafkaError], Message]
Given = TypeVar("Given")


def by_error_code(call: Call[Any], failure: KafkaError) -> Message:
    """For responses that have an error code of their own, and may otherwise be empty."""
    response = api(call.key).response
    values = {each.name: absent_value(each) for each in response.__schema__.fields}
    values["error_code"] = code_of(failure)
    if "error_message" in values:
        values["error_message"] = words(failure)
    return response(**values)


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers an API, in which versions, and how all of it is refused."""

    key: ApiKey
    handle: Handle
    refuse: Refuse = by_error_code
    versions: Versions = field(init=False)
    request: type[Message] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", api(self.key).stable)
        object.__setattr__(self, "request", api(self.key).request)

    def told(self, call: Call[Any], act: Callable[[Given], Answer], given: Given, /) -> Answer:
        """What ``act`` says, or that it has failed.  Raises nothing but Disconnect."""
        try:
            return act(given)
        except _FORESEEN as failure:
            return self._refused(call, failure)
        except Exception:
            log.exception(_FAILED, call.key.name, call.version, call.peer.connection_id)
            return self.refuse(call, KafkaError())

    async def told_later(self, call: Call[Any], rest: Callable[[], Awaitable[Answer]], /) -> Answer:
        """The same of what has to be awaited."""
        try:
            return await rest()
        except _FORESEEN as failure:
            return self._refused(call, failure)
        except Exception:
            log.exception(_FAILED, call.key.name, call.version, call.peer.connection_id)
            return self.refuse(call, KafkaError())

    def _refused(self, call: Call[Any], failure: Exception) -> Message:
        if isinstance(failure, KafkaError):
            return self.refuse(call, failure)
        if isinstance(failure, Disconnect):
            raise failure
        # As Kafka: nobody knows what has become of it, so it is not for the client to repeat.
        whose = call.key.name, call.version, call.peer.connection_id
        log.warning(f"{_FAILED}: %s", *whose, failure)
        return self.refuse(call, KafkaError())


@dataclass(slots=True)
class _Served:
    """What is the same for all requests of one API in one version; treat as immutable."""

    route: Route
    key: ApiKey
    version: int
    header_version: int
    decode_request: Decoder


class Router:
    """Answers whole requests."""

    def __init__(self, routes: Mapping[ApiKey, Route]) -> None:
        self._routes = routes
        #: By the numbers of key and version, as they are asked for.
        self._served: dict[tuple[int, int], _Served] = {}

    def __call__(self, frame: memoryview, peer: Peer) -> Parts | PartsLater | None:
        served = self._served.get(key_and_version(frame))
        if served is None:
            header, _ = decode_request_header(frame)
            key, version = ApiKey(header.request_api_key), header.request_api_version
            served = self._serve(key, version)
            if served is None:
                return self._unsupported(key, version, header.correlation_id)
        correlation_id, client_id, position = read_ids(frame, served.header_version)
        # Kafka does not look beyond, and so does not mind that librdkafka's Metadata is too long.
        request, _ = served.decode_request(frame, position)
        route = served.route
        call = Call(
            request,
            served.version,
            served.key,
            correlation_id,
            client_id,
            peer,
        )
        stages = Stages(peer) if requests_log.isEnabledFor(TRACE) else None
        answer = route.told(call, route.handle, call)
        if answer is None or isinstance(answer, Message):
            return self._parts(call, answer, stages)
        return self._later(route, call, answer, stages)

    def _serve(self, key: ApiKey, version: int) -> _Served | None:
        """None if the API is served, but not in this version."""
        route = self._routes.get(key)
        if route is None:
            raise Disconnect(f"{key.name} is not served")
        if version not in route.versions:
            return None
        served = _Served(
            route,
            key,
            version,
            request_header_version(key, version),
            prefix_decoder(route.request, version),
        )
        self._served[key, version] = served
        return served

    def _later(
        self, route: Route, call: Call[Any], waiting: Awaitable[Answer], stages: Stages | None
    ) -> PartsLater:
        if stages is not None:
            stages.returned()
        if isinstance(waiting, Promised):
            finish = partial(self._finished, route, call, waiting.finish, stages)
            return Promised(waiting.future, finish, ends_alone=waiting.ends_alone)
        if isinstance(waiting, Parked):
            # Made when it is awaited, which may never be.
            rest = partial(self._awaited, route, call, waiting.rest, stages)
            return Parked(rest, ends_alone=waiting.ends_alone, needs_frame=waiting.needs_frame)
        return self._awaited(route, call, lambda: waiting, stages)

    def _finished(
        self,
        route: Route,
        call: Call[Any],
        finish: Callable[[Any], Message],
        stages: Stages | None,
        brought: Any,
    ) -> Parts | None:
        answer = route.told(call, finish, brought)
        assert answer is None or isinstance(answer, Message), answer
        return self._parts(call, answer, stages)

    async def _awaited(
        self,
        route: Route,
        call: Call[Any],
        rest: Callable[[], Awaitable[Answer]],
        stages: Stages | None,
    ) -> Parts | PartsLater | None:
        answer = await route.told_later(call, (lambda: stages.later(rest())) if stages else rest)
        if answer is None or isinstance(answer, Message):
            return self._parts(call, answer, stages)
        return self._later(route, call, answer, stages)

    def _parts(
        self, call: Call[Any], answer: Message | None, stages: Stages | None
    ) -> Parts | None:
        if stages is not None:
            stages.answered()
        parts = None
        if answer is not None:
            parts = response_frame(call.key, call.version, call.correlation_id, answer)
        if stages is not None:
            stages.write(call, answer)
        return parts

    def _unsupported(self, key: ApiKey, version: int, correlation_id: int) -> Parts:
        """A client that is newer than this broker asks again, once it knows what is served."""
        if key is not ApiKey.API_VERSIONS:
            raise Disconnect(f"{key.name} v{version} is not served")
        versions = self._routes[key].versions
        own = ApiVersionsResponse.ApiVersion(
            api_key=int(key), min_version=versions.low, max_version=versions.high
        )
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION.code, api_keys=[own])
        return response_frame(key, 0, correlation_id, answer)
