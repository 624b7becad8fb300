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

from odradek.broker.call import Call, Peer
from odradek.broker.router import Answer, Route
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import Message


class OwnClient:
    """Has the face of a BrokerClient."""

    def __init__(
        self,
        routes: Callable[[], Mapping[ApiKey, Route]],
        *,
        client_id: str,
        listener: str,
        start: Callable[[Coroutine[Any, Any, Message], str], Awaitable[Message]],
    ) -> None:
        self._routes = routes
        self._start = start
        self._client_id = client_id
        self._peer = Peer("itself", "itself", listener, is_own=True)
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises ConnectionError when it is closed."""
        answer = self.ask(request, version=version)
        return answer if isinstance(answer, Message) else await answer

    def ask(self, request: Message, *, version: int) -> Message | Awaitable[Message]:
        """Answered at once, if nothing has to be waited for."""
        if self._is_closed:
            raise ConnectionAbortedError("this broker stops")
        assert request.__schema__.key is not None, request
        key = ApiKey(request.__schema__.key)
        route = self._routes()[key]
        call = Call(request, version, key, 0, self._client_id, self._peer)
        answer = route.told(call, route.handle, call)
        if isinstance(answer, Message):
            return answer
        assert answer is not None, call
        # By a connection, nobody who goes away would keep it from coming to its end.
        return asyncio.shield(self._start(_awaited(route, call, answer), f"own {key.name}"))

    def close(self) -> None:
        self._is_closed = True


async def _awaited(route: Route, call: Call[Any], later: Awaitable[Answer]) -> Message:
    answer = await route.told_later(call, lambda: later)
    if isinstance(answer, Message):
        return answer
    assert answer is not None, call
    return await _awaited(route, call, answer)
