"""Connections to other brokers: counted by what they are for, and closed when the other end is.

A stream of asyncio's own stays half open when its peer has closed it, for whoever has something to
say still.  Here nobody has: it would keep its descriptor until it is next used, which may be never
if the broker is gone for good.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import socket

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Tally:
    """How many there are of one kind."""

    def __init__(self) -> None:
        self.count = 0


class Outgoing:
    """By what they are for, and to whom: "markers to broker 2"."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}

    def tally(self, name: str) -> Tally:
        return self._tallies.setdefault(name, Tally())

    def counts(self) -> dict[str, int]:
        """Of those that there are."""
        return {name: each.count for name, each in self._tallies.items() if each.count}


async def open_stream(
    host: str, port: int, *, tally: Tally, connected: socket.socket | None = None
) -> Stream:
    """Raises OSError, or UnicodeError if this is no name.  ``connected`` is to be used, if any."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = _Counted(reader, loop, tally)
    if connected is None:
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
    else:
        transport, _ = await loop.create_connection(lambda: protocol, sock=connected)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Counted(asyncio.StreamReaderProtocol):
    def __init__(
        self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop, tally: Tally
    ) -> None:
        super().__init__(reader, loop=loop)
        self._tally = tally

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tally.count += 1
        super().connection_made(transport)

    def connection_lost(self, failure: Exception | None) -> None:
        self._tally.count -= 1
        super().connection_lost(failure)

    def eof_received(self) -> bool:
        super().eof_received()
        return False  # which lets the transport close
