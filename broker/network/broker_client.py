"""Client of another broker, with one connection that is opened on demand and reopened after a loss.

Kafka: NetworkClient as InterBrokerSendThread uses it, with one request in flight.

Requests are sent one at a time, so the broker receives them in the order of the calls.  Every error
closes the connection: a response that arrives late on it must not be taken for the response to
another request.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TypeVar

from odradek.broker.network.client_connection import ClientConnection
from odradek.broker.network.local_connections import LocalConnections
from odradek.broker.network.outgoing_connections import ConnectionCounter
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
    """Sends requests to one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        local_connections: LocalConnections | None = None,
        counter: ConnectionCounter | None = None,
    ) -> None:
        """``local_connections`` is given if the other broker is this broker itself.

        ``counter`` counts the connection.
        """
        self._host = host
        self._port = port
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._local_connections = local_connections
        self._counter = counter or ConnectionCounter()
        self._correlation_ids = count()
        self._lock = asyncio.Lock()
        self._connection: ClientConnection | None = None
        #: The timeout of the connection attempt in progress.
        self._connect_timeout: asyncio.Timeout | None = None
        self._is_closed = False

    async def send(self, request: Message, *, version: int) -> Message:
        """Send a request and return its response.

        Raises OSError (including TimeoutError) or DecodeError; the caller may retry.
        """
        async with self._lock:
            is_complete = False
            try:
                response = await self._send(request, version)
                is_complete = True
                return response
            finally:
                if not is_complete:
                    self._disconnect()

    def close(self) -> None:
        self._is_closed = True
        self._disconnect()
        if self._connect_timeout is not None and not self._connect_timeout.expired():
            self._connect_timeout.reschedule(0)  # nothing else ends the connection attempt

    async def _send(self, request: Message, version: int) -> Message:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        connection = await self._ensure_connected(deadline)
        assert request.__schema__.key is not None, request
        key = ApiKey(request.__schema__.key)
        correlation_id = next(self._correlation_ids) % _CORRELATION_ID_MAX
        parts = request_frame(key, version, correlation_id, self._client_id, request)
        response_future = connection.send(b"".join(parts))
        timer = loop.call_at(deadline, self._time_out, connection)
        try:
            frame = await response_future
        finally:
            timer.cancel()
        header, position = decode_prefix(
            ResponseHeader, response_header_version(key, version), frame
        )
        if header.correlation_id != correlation_id:
            raise DecodeError(
                f"{self} sent correlation id {header.correlation_id}, expected {correlation_id}"
            )
        return decode(api(key).response, version, frame, position)

    async def _ensure_connected(self, deadline: float) -> ClientConnection:
        if self._is_closed:
            raise ConnectionAbortedError(f"the client for {self} is closed")
        # A lost connection was closed after the last response, usually because it was idle.
        if self._connection is None or self._connection.is_lost:
            try:
                async with asyncio.timeout_at(deadline) as self._connect_timeout:
                    self._connection = await self._connect()
            except TimeoutError as error:
                raise self._timeout_error() from error
            finally:
                self._connect_timeout = None
        return self._connection

    async def _connect(self) -> ClientConnection:
        loop, host, port = asyncio.get_running_loop(), self._host, self._port
        connection, is_connected = ClientConnection(str(self), self._counter), False
        try:
            if self._local_connections is None:
                await loop.create_connection(lambda: connection, host, port)
            else:
                local_socket = await self._local_connections.connect(host, port)
                await loop.create_connection(lambda: connection, sock=local_socket)
            is_connected = True
            return connection
        except UnicodeError as error:  # raised for a..b, or for a name that is too long
            raise OSError(f"{host} is not a valid host name: {error}") from error
        finally:
            if not is_connected:
                # uvloop does not call connection_lost for a connection attempt that is cancelled.
                connection.decrement_counter()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.fail(ConnectionAbortedError(f"the connection to {self} has been closed"))

    def _time_out(self, connection: ClientConnection) -> None:
        connection.fail(self._timeout_error())

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(f"{self} does not answer in time")

    def __str__(self) -> str:
        return f"{self._host}:{self._port}"
