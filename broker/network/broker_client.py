"""Requests to another broker: one connection, made when it is needed and again when it was lost.

Requests wait for one another, so the broker sees them in the order in which they were sent.  Every
failure closes the connection: whatever is still on its way in it must not be taken for the answer
to another request.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TypeVar

from odradek.broker.network.client_connection import ClientConnection
from odradek.broker.network.outgoing import Tally
from odradek.broker.network.own_connections import OwnConnections
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import (
    ResponseHeader,
    request_frame,
    response_header_version,
)
from odradek.protocol.registry import api
from odradek.protocol.schema import Message

Response = TypeVar("Response", bound=Message)

_CORRELATION_ID_MAX = 2**31


class BrokerClient:
    """A client of one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        own: OwnConnections | None = None,
        tally: Tally | None = None,
    ) -> None:
        """``own``, if the other broker is this one; ``tally`` counts the connection."""
        self._host = host
        self._port = port
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._own = own
        self._tally = tally or Tally()
        self._sent = count()
        self._turn = asyncio.Lock()
        self._connection: ClientConnection | None = None
        #: Of the connection that is being made.
        self._connecting: asyncio.Timeout | None = None
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises OSError, TimeoutError among them, or DecodeError; then it may be tried again."""
        async with self._turn:
            is_answered = False
            try:
                answer = await self._asked(request, version)
                is_answered = True
                return answer
            finally:
                if not is_answered:
                    self._disconnect()

    def close(self) -> None:
        self._is_closed = True
        self._disconnect()
        if self._connecting is not None and not self._connecting.expired():
            self._connecting.reschedule(0)  # nothing else ends it

    async def _asked(self, request: Message, version: int) -> Message:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        connection = await self._connected(deadline)
        assert request.__schema__.key is not None, request
        key = ApiKey(request.__schema__.key)
        correlation_id = next(self._sent) % _CORRELATION_ID_MAX
        parts = request_frame(key, version, correlation_id, self._client_id, request)
        answer = connection.ask(b"".join(parts))
        timer = loop.call_at(deadline, self._give_up, connection)
        try:
            frame = await answer
        finally:
            timer.cancel()
        header, position = decode_prefix(
            ResponseHeader, response_header_version(key, version), frame
        )
        if header.correlation_id != correlation_id:
            raise DecodeError(f"{self} answered {header.correlation_id}, not {correlation_id}")
        return decode(api(key).response, version, frame, position)

    async def _connected(self, deadline: float) -> ClientConnection:
        if self._is_closed:
            raise ConnectionAbortedError(f"the client of {self} has been closed")
        # One that is lost was closed since the last answer, most likely because it was idle.
        if self._connection is None or self._connection.is_lost:
            try:
                async with asyncio.timeout_at(deadline) as self._connecting:
                    self._connection = await self._connect()
            except TimeoutError as late:
                raise self._late() from late
            finally:
                self._connecting = None
        return self._connection

    async def _connect(self) -> ClientConnection:
        loop, host, port = asyncio.get_running_loop(), self._host, self._port
        connection, is_made = ClientConnection(str(self), self._tally), False
        try:
            if self._own is None:
                await loop.create_connection(lambda: connection, host, port)
            else:
                own = await self._own.connect(host, port)
                await loop.create_connection(lambda: connection, sock=own)
            is_made = True
            return connection
        except UnicodeError as failure:  # of a..b, or of too long a name
            raise OSError(f"{host} is no name of a host: {failure}") from failure
        finally:
            if not is_made:
                # uvloop does not say that a connection is lost if it is given up as it is made.
                connection.uncount()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.lose(ConnectionAbortedError(f"the connection to {self} has been closed"))

    def _give_up(self, connection: ClientConnection) -> None:
        connection.lose(self._late())

    def _late(self) -> TimeoutError:
        return TimeoutError(f"{self} does not answer in time")

    def __str__(self) -> str:
        return f"{self._host}:{self._port}"
