"""A connection to another broker: a request goes out, and its answer comes in as it may.

A protocol of the loop's, not a pair of streams: a follower asks after every record, and streams
would be half of what that costs it.

Whatever is wrong ends it: an answer that nobody waits for, or one that is longer than it says, must
not be taken for the answer to another request.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from typing import cast

from odradek.broker.network.outgoing import Tally
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import SIZE


class ClientConnection(asyncio.Protocol):
    """To ``broker``, as it is called; ``is_lost`` as soon as it cannot be used any more."""

    def __init__(self, broker: str, tally: Tally) -> None:
        self.is_lost = False
        self._broker = broker
        self._tally = tally
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[memoryview] | None = None
        #: What has come of an answer, while it is not all.
        self._received = bytearray()

    def ask(self, request: bytes) -> asyncio.Future[memoryview]:
        """Brings the answer, without its size, or raises what the connection was lost by."""
        assert self._transport is not None
        assert self._answer is None
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return self._answer

    def lose(self, failure: Exception) -> None:
        """Whoever waits for an answer is told why there is none."""
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(failure)

    # What the loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tally.count += 1
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        whole: bytes | bytearray = data
        if self._received:
            self._received += data
            whole = self._received
        size = SIZE.unpack_from(whole)[0] if len(whole) >= SIZE.size else None
        if size is not None and (size < 0 or len(whole) > SIZE.size + size):
            self.lose(DecodeError(f"{self._broker} sent {len(whole)} bytes as an answer of {size}"))
        elif self._answer is None:
            self.lose(DecodeError(f"{self._broker} answered what nobody asked"))
        elif size is not None and len(whole) == SIZE.size + size:
            answer, self._answer, self._received = self._answer, None, bytearray()
            if not answer.done():
                answer.set_result(memoryview(whole)[SIZE.size :])
        elif whole is data:
            self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.count -= 1
        self.lose(exc or ConnectionResetError(f"{self._broker} closed the connection"))
