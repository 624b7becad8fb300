"""Send buffer of a connection: sends bytes by gathered writes and file regions by sendfile.

Kafka: NetworkSend, with DefaultRecordsSend for file regions.

Small responses to requests that were received together are sent by one system call.  So is a
response with a small file region: the region is read into memory, because separate calls for head,
region and tail would cost more than the copy, and would wake the client twice.

Bytes that the kernel does not accept are kept in order.  A file region, and with it the reference
that keeps its file open, is kept until its last byte is sent.

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

# Well above the total of the small responses to one full receive buffer.
GATHER_BYTES_MAX = 64 * 1024
# The kernel's limit (IOV_MAX).
BUFFERS_PER_CALL = 1024
# A client that reads as fast as the broker writes must not starve the others.
BYTES_PER_PUSH = 1024 * 1024
# The largest response that is joined; measured on loopback, sendfile is cheaper from 64 KB on.
JOINED_BYTES_MAX = 32 * 1024

_FILE_ERRNOS = frozenset({errno.EIO, errno.EBADF, errno.EINVAL, errno.EOVERFLOW})


class SendBuffer:
    """``has_pending`` while the socket does not accept all bytes."""

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
        # Any, not Part: bytes, except for the part that reaches GATHER_BYTES_MAX.
        self._gathered: list[Any] = []
        self._gathered_bytes = 0
        self._parts: deque[Part] = deque()
        self._sent_of_first = 0
        self.has_pending = False

    def add(self, response: ResponseParts) -> None:
        """Send the response at the next flush, or now if it is large."""
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
        """Send as much as possible, up to BYTES_PER_PUSH; set ``has_pending`` if some is left."""
        remaining_bytes = BYTES_PER_PUSH
        self.has_pending = True
        try:
            while self._parts and remaining_bytes > 0:
                sent, offered = self._push_first(self._parts[0])
                remaining_bytes -= sent
                self._discard_sent(sent)
                if sent < offered:  # the socket is full: another call would only fail
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        self.has_pending = bool(self._parts)

    def _send(self, joined: Any) -> list[Any]:
        """Send the bytes; return those that are left."""
        try:
            sent = self._transport.send(joined)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        return [memoryview(joined)[sent:]] if sent < len(joined) else []

    def _push_first(self, first: Part) -> tuple[int, int]:
        """Return how many bytes were sent, and how many were offered."""
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
