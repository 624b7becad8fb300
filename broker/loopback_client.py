"""This broker as a client of itself: its handlers are called, with no connection in between.

Coordinators of transactions and leaders of partitions speak to each other by requests, since they
may be two brokers.  Where they are one, nothing is written as bytes or waits for a socket, so that
a transaction has ended before its producer could begin another.

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
    """Has the face of a BrokerClient."""

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
        """Raises ConnectionError when it is closed."""
        response = self.send_nowait(request, version=version)
        return response if isinstance(response, Message) else await response

    def send_nowait(self, body: Message, *, version: int) -> Message | Awaitable[Message]:
        """Answered at once, if nothing has to be waited for."""
        if self._is_closed:
            raise ConnectionAbortedError("this broker stops")
        assert body.__schema__.key is not None, body
        key = ApiKey(body.__schema__.key)
        route = self._routes()[key]
        request = Request(body, version, key, 0, self._client_id, self._context)
        response = route.invoke(request, route.handle, request)
        if isinstance(response, Message):
            return response
        assert response is not None, request
        # By a connection, nobody who goes away would keep it from coming to its end.
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
