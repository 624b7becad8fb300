"""Connection to another broker, with at most one request in flight.

It is an asyncio.Protocol and not a pair of streams: a follower fetches after every record, and
streams would be half of the cost of a fetch.

Every protocol error closes the connection.  A response without a request, or with more bytes than
its size states, must not be taken for the response to another request.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from typing import cast

from odradek.broker.network.outgoing_connections import ConnectionCounter
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import SIZE


class ClientConnection(asyncio.Protocol):
    """A connection to ``broker``, a name for messages; ``is_lost`` once it is unusable."""

    def __init__(self, broker: str, counter: ConnectionCounter) -> None:
        self.is_lost = False
        self._broker = broker
        self._counter = counter
        self._is_counted = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[memoryview] | None = None
        #: The bytes of an incomplete response.
        self._received = bytearray()

    def send(self, request: bytes) -> asyncio.Future[memoryview]:
        """Send a request.

        The future returns the response without its size, or raises the error that closed the
        connection.
        """
        assert self._transport is not None
        assert self._response is None
        self._response = self._loop.create_future()
        self._transport.write(request)
        return self._response

    def fail(self, error: Exception) -> None:
        """Close the connection and fail the pending request with ``error``."""
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()
        response_future, self._response = self._response, None
        if response_future is not None and not response_future.done():
            response_future.set_exception(error)

    def decrement_counter(self) -> None:
        """Count the connection as closed; further calls have no effect."""
        if self._is_counted:
            self._is_counted = False
            self._counter.count -= 1

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_counted = True
        self._counter.count += 1
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received: bytes | bytearray = data
        if self._received:
            self._received += data
            received = self._received
        size = SIZE.unpack_from(received)[0] if len(received) >= SIZE.size else None
        if size is not None and (size < 0 or len(received) > SIZE.size + size):
            self.fail(
                DecodeError(f"{self._broker} sent {len(received)} bytes for a response of {size}")
            )
        elif self._response is None:
            self.fail(DecodeError(f"{self._broker} sent a response without a request"))
        elif size is not None and len(received) == SIZE.size + size:
            response_future, self._response, self._received = self._response, None, bytearray()
            if not response_future.done():
                response_future.set_result(memoryview(received)[SIZE.size :])
        elif received is data:
            self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.decrement_counter()
        self.fail(exc or ConnectionResetError(f"{self._broker} closed the connection"))
