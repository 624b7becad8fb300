"""A client of this broker that calls the handlers directly, without a connection.

Transaction coordinators and partition leaders exchange requests because they may be on two brokers.
If they are on the same broker, this client encodes nothing and waits for no socket.  A transaction
is then complete before its producer can begin the next one.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from odradek.broker.request import Request, RequestContext
from odradek.broker.router import HandlerResult, Route
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import Message


class LoopbackClient:
    """Has the same methods as BrokerClient."""

    def __init__(
        self,
        routes: Callable[[], Mapping[ApiKey, Route]],
        *,
        client_id: str,
        listener: str,
        start_task: Callable[[Coroutine[Any, Any, Message], str], Awaitable[Message]],
    ) -> None:
        self._routes = routes
        self._start_task = start_task
        self._client_id = client_id
        self._context = RequestContext("loopback", "loopback", listener, is_from_this_broker=True)
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises ConnectionError if the client is closed."""
        response = self.send_nowait(request, version=version)
        return response if isinstance(response, Message) else await response

    def send_nowait(self, body: Message, *, version: int) -> Message | Awaitable[Message]:
        """Return the response, or an awaitable of it if the handler has to wait."""
        if self._is_closed:
            raise ConnectionAbortedError("this broker is shutting down")
        assert body.__schema__.key is not None, body
        key = ApiKey(body.__schema__.key)
        route = self._routes()[key]
        request = Request(body, version, key, 0, self._client_id, self._context)
        response = route.invoke(request, route.handle, request)
        if isinstance(response, Message):
            return response
        assert response is not None, request
        # As with a connection, the request completes even if the caller is cancelled.
        return asyncio.shield(
            self._start_task(_await_response(route, request, response), f"loopback {key.name}")
        )

    def close(self) -> None:
        self._is_closed = True


async def _await_response(
    route: Route, request: Request[Any], response: Awaitable[HandlerResult]
) -> Message:
    result = await route.invoke_async(request, lambda: response)
    if isinstance(result, Message):
        return result
    assert result is not None, request
    return await _await_response(route, request, result)
