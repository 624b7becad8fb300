"""What a handler is told of a request: the request itself, and who sent it.

Between the network and the router stands one callable, the Answerer.  It is given a frame (the
bytes after the size, in a writable buffer that nobody touches before the answer is out) and gives
the parts of the answer, size included; None, where none is to be sent; or an awaitable of either,
or of another awaitable.

Plain classes, since one Call is made for every request.
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
    """The connection is to be closed without an answer; the text says why, for the log."""


@dataclass(slots=True)
class RequestContext:
    """The facts of a connection, for as long as it lasts."""

    #: As Kafka writes it: local-host:port-remote-host:port-index
    connection_id: str
    client_host: str
    listener: str
    is_control_plane: bool = False
    #: Whether it is this broker's own, which counts for no limit.
    is_from_this_broker: bool = False
    #: Told by ApiVersions from v3 on.
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    #: Everyone, as long as nobody shows who they are.
    principal: str = "User:ANONYMOUS"
    #: Whether the connection is closed.
    is_closed: bool = False
    #: When its request began to wait for the loop that answers; 0 unless somebody wants to know.
    queued_at: float = 0.0


@dataclass(slots=True)
class Request(Generic[Body]):
    """One request."""

    body: Body
    version: int
    api_key: ApiKey
    correlation_id: int
    client_id: str | None
    context: RequestContext


@dataclass(slots=True)
class DelayedOperation(Generic[Result]):
    """What is left of a request that has done all it was to do, or may be dropped: it waits first.

    It holds up nobody, like those in Kafka's purgatory: it is not counted among the requests in
    progress, its frame is given back, and it is dropped, wherever it is, when its peer has gone.
    """

    complete: Callable[[], Awaitable[Result]]
    #: Whether it comes to its end although no request is read any more, and so is waited for when
    #: the broker stops.
    completes_on_shutdown: bool = False
    needs_frame: bool = False

    def __await__(self) -> Generator[Any, Any, Result]:
        return self.complete().__await__()


class DelayedFuture(DelayedOperation[Result]):
    """Parked, and a future is all that it waits for: what that brings is the answer's only need.

    Then no task is made of it.  A rebalance answers hundreds of these at the same time, and a task
    for each would be a fifth of what they cost.
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
        """``finish`` makes the answer, or raises what the client is told."""
        # Not by a method of its own: it would keep itself alive until somebody looks for garbage.
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
