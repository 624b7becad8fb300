"""Turns the bytes of a request into the parts of its response; common to all APIs.

Kafka: KafkaApis.handle.

    header      API key, version, correlation id, client id
    version     an unsupported version closes the connection; only ApiVersions is answered, as v0
    decode      a frame that is not a valid request closes the connection
    handle      the handler in routes.py runs, at once or in a delayed operation
    errors      a KafkaError for the whole request becomes its error response; any other exception
                is a bug: it is logged with its traceback, and the client gets UNKNOWN_SERVER_ERROR
    encode      size, header and body; file regions stay as they are

The request log (request_log.py) shows all of this.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from odradek.broker.handlers.error_messages import error_message
from odradek.broker.logging_setup import TRACE
from odradek.broker.request import (
    DelayedFuture,
    DelayedOperation,
    Disconnect,
    Request,
    RequestContext,
    ResponseParts,
)
from odradek.broker.request_log import RequestTimings
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
    read_request_ids,
    request_header_version,
    response_frame,
)
from odradek.protocol.registry import api
from odradek.protocol.schema import Message, default_value

log = logging.getLogger("kafka.server")
_FAILED_MESSAGE = "Unexpected error handling request %s v%d from %s"
_EXPECTED_ERRORS = (KafkaError, Disconnect, SessionExpired)

HandlerResult = Message | Awaitable["HandlerResult"] | None
AwaitableParts = Awaitable["ResponseParts | AwaitableParts | None"]
ApiHandler = Callable[[Request[Any]], HandlerResult]
ErrorResponseBuilder = Callable[[Request[Any], KafkaError], Message]
Argument = TypeVar("Argument")


def default_error_response(request: Request[Any], error: KafkaError) -> Message:
    """For responses that have a top-level error code and may be empty otherwise."""
    response = api(request.api_key).response
    values = {each.name: default_value(each) for each in response.__schema__.fields}
    values["error_code"] = code_of(error)
    if "error_message" in values:
        values["error_message"] = error_message(error)
    return response(**values)


@dataclass(frozen=True, slots=True)
class Route:
    """An API with its handler, its stable versions and its error response."""

    api_key: ApiKey
    handle: ApiHandler
    error_response: ErrorResponseBuilder = default_error_response
    versions: Versions = field(init=False)
    request_class: type[Message] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", api(self.api_key).stable)
        object.__setattr__(self, "request_class", api(self.api_key).request)

    def invoke(
        self,
        request: Request[Any],
        function: Callable[[Argument], HandlerResult],
        argument: Argument,
        /,
    ) -> HandlerResult:
        """Call the function and turn its errors into an error response; raise only Disconnect."""
        try:
            return function(argument)
        except _EXPECTED_ERRORS as error:
            return self._handle_error(request, error)
        except Exception:
            log.exception(
                _FAILED_MESSAGE,
                request.api_key.name,
                request.version,
                request.context.connection_id,
            )
            return self.error_response(request, KafkaError())

    async def invoke_async(
        self, request: Request[Any], complete: Callable[[], Awaitable[HandlerResult]], /
    ) -> HandlerResult:
        """As ``invoke``, for a function that has to be awaited."""
        try:
            return await complete()
        except _EXPECTED_ERRORS as error:
            return self._handle_error(request, error)
        except Exception:
            log.exception(
                _FAILED_MESSAGE,
                request.api_key.name,
                request.version,
                request.context.connection_id,
            )
            return self.error_response(request, KafkaError())

    def _handle_error(self, request: Request[Any], error: Exception) -> Message:
        if isinstance(error, KafkaError):
            return self.error_response(request, error)
        if isinstance(error, Disconnect):
            raise error
        # As in Kafka: the outcome is unknown, so the error must not be retriable.
        names = request.api_key.name, request.version, request.context.connection_id
        log.warning(f"{_FAILED_MESSAGE}: %s", *names, error)
        return self.error_response(request, KafkaError())


@dataclass(slots=True)
class _VersionedRoute:
    """The facts that all requests of one API and version share; treat as immutable."""

    route: Route
    api_key: ApiKey
    version: int
    header_version: int
    decode_request: Decoder


class Router:
    """Handles whole requests."""

    def __init__(self, routes: Mapping[ApiKey, Route]) -> None:
        self._routes = routes
        #: By API key and version, filled when a request needs it.
        self._versioned_routes: dict[tuple[int, int], _VersionedRoute] = {}

    def __call__(
        self, frame: memoryview, context: RequestContext
    ) -> ResponseParts | AwaitableParts | None:
        versioned_route = self._versioned_routes.get(key_and_version(frame))
        if versioned_route is None:
            header, _ = decode_request_header(frame)
            key, version = ApiKey(header.request_api_key), header.request_api_version
            versioned_route = self._resolve_route(key, version)
            if versioned_route is None:
                return self._unsupported_version_response(key, version, header.correlation_id)
        correlation_id, client_id, position = read_request_ids(
            frame, versioned_route.header_version
        )
        # As in Kafka, surplus bytes are ignored: librdkafka's Metadata request is too long.
        body, _ = versioned_route.decode_request(frame, position)
        route = versioned_route.route
        request = Request(
            body,
            versioned_route.version,
            versioned_route.api_key,
            correlation_id,
            client_id,
            context,
        )
        timings = RequestTimings(context) if requests_log.isEnabledFor(TRACE) else None
        response = route.invoke(request, route.handle, request)
        if response is None or isinstance(response, Message):
            return self._encode_response(request, response, timings)
        return self._wrap_delayed(route, request, response, timings)

    def _resolve_route(self, api_key: ApiKey, version: int) -> _VersionedRoute | None:
        """Return None if the API is supported, but not in this version."""
        route = self._routes.get(api_key)
        if route is None:
            raise Disconnect(f"{api_key.name} is not supported")
        if version not in route.versions:
            return None
        versioned_route = _VersionedRoute(
            route,
            api_key,
            version,
            request_header_version(api_key, version),
            prefix_decoder(route.request_class, version),
        )
        self._versioned_routes[api_key, version] = versioned_route
        return versioned_route

    def _wrap_delayed(
        self,
        route: Route,
        request: Request[Any],
        awaitable: Awaitable[HandlerResult],
        timings: RequestTimings | None,
    ) -> AwaitableParts:
        if timings is not None:
            timings.mark_returned()
        if isinstance(awaitable, DelayedFuture):
            build_parts = partial(
                self._build_parts, route, request, awaitable.build_response, timings
            )
            return DelayedFuture(
                awaitable.future, build_parts, completes_on_shutdown=awaitable.completes_on_shutdown
            )
        if isinstance(awaitable, DelayedOperation):
            # The coroutine is created only when it is awaited, which may never happen.
            complete = partial(self._complete_async, route, request, awaitable.complete, timings)
            return DelayedOperation(
                complete,
                completes_on_shutdown=awaitable.completes_on_shutdown,
                needs_frame=awaitable.needs_frame,
            )
        return self._complete_async(route, request, lambda: awaitable, timings)

    def _build_parts(
        self,
        route: Route,
        request: Request[Any],
        build_response: Callable[[Any], Message],
        timings: RequestTimings | None,
        result: Any,
    ) -> ResponseParts | None:
        response = route.invoke(request, build_response, result)
        assert response is None or isinstance(response, Message), response
        return self._encode_response(request, response, timings)

    async def _complete_async(
        self,
        route: Route,
        request: Request[Any],
        complete: Callable[[], Awaitable[HandlerResult]],
        timings: RequestTimings | None,
    ) -> ResponseParts | AwaitableParts | None:
        response = await route.invoke_async(
            request, (lambda: timings.timed(complete())) if timings else complete
        )
        if response is None or isinstance(response, Message):
            return self._encode_response(request, response, timings)
        return self._wrap_delayed(route, request, response, timings)

    def _encode_response(
        self, request: Request[Any], response: Message | None, timings: RequestTimings | None
    ) -> ResponseParts | None:
        if timings is not None:
            timings.mark_completed()
        parts = None
        if response is not None:
            parts = response_frame(
                request.api_key, request.version, request.correlation_id, response
            )
        if timings is not None:
            timings.log_request(request, response)
        return parts

    def _unsupported_version_response(
        self, api_key: ApiKey, version: int, correlation_id: int
    ) -> ResponseParts:
        """A newer client repeats its request in a version that this response lists."""
        if api_key is not ApiKey.API_VERSIONS:
            raise Disconnect(f"{api_key.name} v{version} is not supported")
        versions = self._routes[api_key].versions
        supported = ApiVersionsResponse.ApiVersion(
            api_key=int(api_key), min_version=versions.low, max_version=versions.high
        )
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION.code, api_keys=[supported]
        )
        return response_frame(api_key, 0, correlation_id, response)
