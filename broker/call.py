"""What a handler is told of a request: the request itself, and who sent it.

Between the network and the router stands one callable, the Answerer.  It is given a frame (the
bytes after the size, in a writable buffer that nobody touches before the answer is out) and gives
the parts of the answer, size included; None, where none is to be sent; or an awaitable of either.

Plain classes, since one Call is made for every request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import Part

Request = TypeVar("Request")


class Disconnect(Exception):
    """The connection is to be closed without an answer; the text says why, for the log."""


@dataclass(slots=True)
class Peer:
    """The facts of a connection, for as long as it lasts."""

    #: As Kafka writes it: local-host:port-remote-host:port-index
    connection_id: str
    client_host: str
    listener: str
    is_control_plane: bool = False
    #: Told by ApiVersions from v3 on.
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    #: Everyone, as long as nobody shows who they are.
    principal: str = "User:ANONYMOUS"


@dataclass(slots=True)
class Call(Generic[Request]):
    """One request."""

    request: Request
    version: int
    key: ApiKey
    correlation_id: int
    client_id: str | None
    peer: Peer


Parts = Sequence[Part]
Answer = Parts | Awaitable[Parts | None] | None
Answerer = Callable[[memoryview, Peer], Answer]
