"""Requests to another broker: one connection, made when it is needed and again when it was lost.

Requests wait for one another, so the broker sees them in the order in which they were sent.  Every
failure closes the connection: whatever is still on its way in it must not be taken for the answer
to another request.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import TypeVar

from odradek.broker.network.outgoing import Stream, Tally, open_stream
from odradek.broker.network.own_connections import OwnConnections
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import (
    SIZE,
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
        self._connection: Stream | None = None
        #: Of the request that is being sent, or waits for its connection or answer.
        self._limit: asyncio.Timeout | None = None
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises OSError, TimeoutError among them, or DecodeError; then it may be tried again."""
        async with self._turn:
            is_answered = False
            try:
                async with asyncio.timeout(self._timeout_s) as self._limit:
                    answer = await self._asked(request, version)
                is_answered = True
                return answer
            except asyncio.IncompleteReadError as cut:
                raise ConnectionResetError(f"{self} closed the connection") from cut
            except TimeoutError as late:
                raise TimeoutError(str(late) or f"{self} does not answer in time") from late
            finally:
                self._limit = None
                if not is_answered:
                    self._disconnect()

    def close(self) -> None:
        self._is_closed = True
        self._disconnect()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)  # it may be connecting, which nothing else ends

    async def _asked(self, request: Message, version: int) -> Message:
        reader, writer = await self._connected()
        assert request.__schema__.key is not None, request
        key = ApiKey(request.__schema__.key)
        correlation_id = next(self._sent) % _CORRELATION_ID_MAX
        for part in request_frame(key, version, correlation_id, self._client_id, request):
            writer.write(part)
        await writer.drain()
        size = SIZE.unpack(await reader.readexactly(SIZE.size))[0]
        if size < 0:
            raise DecodeError(f"an answer of {size} bytes from {self}")
        frame = await reader.readexactly(size)
        header, position = decode_prefix(
            ResponseHeader, response_header_version(key, version), frame
        )
        if header.correlation_id != correlation_id:
            raise DecodeError(f"{self} answered {header.correlation_id}, not {correlation_id}")
        return decode(api(key).response, version, frame, position)

    async def _connected(self) -> Stream:
        if self._is_closed:
            raise ConnectionAbortedError(f"the client of {self} has been closed")
        if self._connection is not None and _is_lost(*self._connection):
            self._disconnect()
        if self._connection is None:
            self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> Stream:
        host, port = self._host, self._port
        try:
            connected = await self._own.connect(host, port) if self._own else None
            return await open_stream(host, port, tally=self._tally, connected=connected)
        except UnicodeError as failure:  # of a..b, or of too long a name
            raise OSError(f"{host} is no name of a host: {failure}") from failure

    def _disconnect(self) -> None:
        if self._connection is not None:
            _, writer = self._connection
            self._connection = None
            with suppress(OSError):
                writer.transport.abort()

    def __str__(self) -> str:
        return f"{self._host}:{self._port}"


def _is_lost(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """The broker has closed it since the last answer, most likely because it was idle."""
    return reader.at_eof() or reader.exception() is not None or writer.is_closing()
