"""Answers on their way out: bytes by gathered writes, file regions by sendfile.

Small answers to frames that came together are sent by one call.  So is an answer with a small
region, which is read for that: head, region and tail by a call each would cost more than the copy,
and whoever waits for it would be woken twice.

What the kernel does not take is kept, in order; a region, and with it whatever keeps its file open,
until its last byte is sent.

Owner: the loop of the connection's processor.
"""

from __future__ import annotations

import errno
from collections import deque
from itertools import islice, takewhile
from typing import Any

from odradek.broker.network.transport import PeerDisconnected, Transport
from odradek.broker.request import Disconnect, ResponseParts
from odradek.protocol.codec import Part
from odradek.protocol.file_region import FileRegion
from odradek.storage import files

# Well above what small answers to one full receive buffer amount to.
GATHER_BYTES_MAX = 64 * 1024
# The kernel takes no more at once (IOV_MAX).
BUFFERS_PER_CALL = 1024
# A peer that reads as fast as we write must leave time for the others.
BYTES_PER_PUSH = 1024 * 1024
# Of an answer that is joined; measured on loopback, sendfile is the cheaper from 64 KB on.
JOINED_BYTES_MAX = 32 * 1024

_FILE_ERRNOS = frozenset({errno.EIO, errno.EBADF, errno.EINVAL, errno.EOVERFLOW})


class SendBuffer:
    """``is_stuck`` while the peer must first take what it was sent."""

    __slots__ = (
        "_gathered",
        "_gathered_bytes",
        "_parts",
        "_sent_of_first",
        "_transport",
        "has_pending",
    )

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Any, not Part: bytes, but for what makes it GATHERED_BYTES and more.
        self._gathered: list[Any] = []
        self._gathered_bytes = 0
        self._parts: deque[Part] = deque()
        self._sent_of_first = 0
        self.has_pending = False

    def add(self, response: ResponseParts) -> None:
        """To be sent at the next flush, or now if it is much."""
        if len(response) > 1 and sum(map(len, response)) <= JOINED_BYTES_MAX:
            response = [b"".join(map(_load_part, response))]
        self._gathered += response
        self._gathered_bytes += len(response[0]) if len(response) == 1 else GATHER_BYTES_MAX
        if self._gathered_bytes >= GATHER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        gathered, gathered_bytes = self._gathered, self._gathered_bytes
        if not gathered:
            return
        self._gathered, self._gathered_bytes = [], 0
        if not self.has_pending and gathered_bytes < GATHER_BYTES_MAX:
            gathered = self._send(gathered[0] if len(gathered) == 1 else b"".join(gathered))
        if gathered:
            self._parts.extend(part for part in gathered if len(part))
            if not self.has_pending:
                self.push()

    def push(self) -> None:
        """Send what can be sent now, within reason; ``is_stuck`` tells whether it was all."""
        remaining_bytes = BYTES_PER_PUSH
        self.has_pending = True
        try:
            while self._parts and remaining_bytes > 0:
                sent, offered = self._push_first(self._parts[0])
                remaining_bytes -= sent
                self._discard_sent(sent)
                if sent < offered:  # there is no room for more: asking again would only say so
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        self.has_pending = bool(self._parts)

    def _send(self, joined: Any) -> list[Any]:
        """What is left of it."""
        try:
            sent = self._transport.send(joined)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        return [memoryview(joined)[sent:]] if sent < len(joined) else []

    def _push_first(self, first: Part) -> tuple[int, int]:
        """How many bytes went out, and how many were to."""
        if isinstance(first, FileRegion):
            return self._push_region(first)
        buffers: list[Any] = list(takewhile(_is_buffer, islice(self._parts, BUFFERS_PER_CALL)))
        if self._sent_of_first:
            buffers[0] = memoryview(first)[self._sent_of_first :]
        more = len(buffers) < len(self._parts)
        return self._transport.send_parts(buffers, more=more), sum(map(len, buffers))

    def _push_region(self, region: FileRegion) -> tuple[int, int]:
        position = region.position + self._sent_of_first
        length = min(region.length - self._sent_of_first, BYTES_PER_PUSH)
        try:
            sent = self._transport.send_file(region.descriptor, position=position, length=length)
        except OSError as error:
            if error.errno in _FILE_ERRNOS:
                raise Disconnect(f"failed to send {region}: {error}") from error
            raise
        if not sent:
            raise _short_file_error(region)
        return sent, length

    def _discard_sent(self, sent: int) -> None:
        sent += self._sent_of_first
        while self._parts and sent >= len(self._parts[0]):
            sent -= len(self._parts.popleft())
        self._sent_of_first = sent


def _is_buffer(part: Part) -> bool:
    return not isinstance(part, FileRegion)


def _load_part(part: Part) -> Any:
    if not isinstance(part, FileRegion):
        return part
    try:
        data = files.read_at(part.descriptor, part.length, part.position)
    except OSError as error:
        raise Disconnect(f"failed to read {part}: {error}") from error
    if len(data) < part.length:
        raise _short_file_error(part)
    return data


def _short_file_error(region: FileRegion) -> Disconnect:
    return Disconnect(f"the file of {region} is too short")
