"""Requests as handlers receive them.  Kafka: RequestChannel.Request and RequestContext.

The network calls the router through one callable, the RequestHandler.  Its argument is a frame: the
bytes after the size, in a writable buffer that stays unchanged until the response is sent.  It
returns the parts of the response including the size, or None if no response is to be sent, or an
awaitable of one of these or of another awaitable.

These are plain classes because one Request is created for every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import Part

Body = TypeVar("Body")
Result = TypeVar("Result")


class Disconnect(Exception):
    """Close the connection without a response.  The message is logged as the reason."""


@dataclass(slots=True)
class RequestContext:
    """Facts about a connection; it lives as long as the connection."""

    #: In Kafka's format: local-host:port-remote-host:port-index
    connection_id: str
    client_host: str
    listener: str
    is_control_plane: bool = False
    #: Whether this broker itself opened the connection, which is then exempt from all limits.
    is_from_this_broker: bool = False
    #: Set by ApiVersions v3 and later.
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    #: Anonymous until the client is authenticated.
    principal: str = "User:ANONYMOUS"
    #: Whether the connection is closed.
    is_closed: bool = False
    #: When the request started to wait for the event loop; 0 unless the request log is enabled.
    queued_at: float = 0.0


@dataclass(slots=True)
class Request(Generic[Body]):
    """One decoded request with its header and the context of its connection."""

    body: Body
    version: int
    api_key: ApiKey
    correlation_id: int
    client_id: str | None
    context: RequestContext


@dataclass(slots=True)
class DelayedOperation(Generic[Result]):
    """The rest of a request that has to wait, and that may be dropped or has taken effect already.

    As in Kafka's purgatory, a delayed operation blocks nothing: it does not count as a request in
    progress, its frame is released, and it is dropped at any point when its client disconnects.
    """

    complete: Callable[[], Awaitable[Result]]
    #: Whether it completes although no more requests are read.  The shutdown of the broker waits
    #: for such operations.
    completes_on_shutdown: bool = False
    needs_frame: bool = False

    def __await__(self) -> Generator[Any, Any, Result]:
        return self.complete().__await__()


class DelayedFuture(DelayedOperation[Result]):
    """A delayed operation that waits only for a future and builds the response from its result.

    It needs no task.  A rebalance completes hundreds of these at the same time, and a task for each
    would be a fifth of their cost.
    """

    __slots__ = ("build_response", "future")

    def __init__(
        self,
        future: asyncio.Future[Any],
        build_response: Callable[[Any], Result],
        /,
        *,
        completes_on_shutdown: bool = False,
    ) -> None:
        """``build_response`` returns the response or raises the error for the client."""
        # Not a bound method: the reference cycle would keep the object until garbage collection.
        super().__init__(
            partial(_await_response, future, build_response),
            completes_on_shutdown=completes_on_shutdown,
        )
        self.future = future
        self.build_response = build_response


async def _await_response(
    future: asyncio.Future[Any], build_response: Callable[[Any], Result]
) -> Result:
    return build_response(await future)


ResponseParts = list[Part]
Response = ResponseParts | Awaitable["Response"] | None
RequestHandler = Callable[[memoryview, RequestContext], Response]
