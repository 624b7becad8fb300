"""This broker as a client of itself: its handlers are called, with no connection in between.

Coordinators of transactions and leaders of partitions speak to each other by requests, since they
may be two brokers.  Where they are one, nothing is written as bytes or waits for a socket, so that
a transaction has ended before its producer could begin another.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from odradek.broker.call import Call, Peer
from odradek.broker.router import Route
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import KafkaError
from odradek.protocol.schema import Message

log = logging.getLogger(__name__)


class OwnClient:
    """Has the face of a BrokerClient."""

    def __init__(
        self, routes: Callable[[], Mapping[ApiKey, Route]], *, client_id: str, listener: str
    ) -> None:
        self._routes = routes
        self._client_id = client_id
        self._peer = Peer("itself", "itself", listener, is_own=True)
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises ConnectionError when it is closed."""
        if self._is_closed:
            raise ConnectionAbortedError("this broker stops")
        assert request.__schema__.key is not None, request
        key = ApiKey(request.__schema__.key)
        route = self._routes()[key]
        call = Call(request, version, key, 0, self._client_id, self._peer)
        try:
            answer = route.handle(call)
            while not isinstance(answer, Message):
                assert answer is not None, call
                answer = await answer
            return answer
        except KafkaError as refusal:
            return route.refuse(call, refusal)
        except Exception:
            log.exception("%s v%d of this broker itself failed", key.name, version)
            return route.refuse(call, KafkaError())

    def close(self) -> None:
        self._is_closed = True
