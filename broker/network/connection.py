"""One connection: reads requests and sends the responses in the order of the requests.

Kafka: KafkaChannel, with the part of Processor that reads requests and sends responses.

A request frame is four bytes of size (big-endian), then that many bytes.  A response that is
available immediately is sent in the same call.  While the connection waits for a response, or for
the socket to accept one, it is busy and reads nothing more.  Frames that are already received are
processed next, without another system call.  Of many frames that were received together, the
connection processes as many as fit into a time slice, then yields to the event loop.

Waiting for a response needs no system call: the reader stays registered.  When it fires, the
connection peeks for a reset, then unregisters the reader.  A client that closed only its sending
side still gets its responses.  While a response cannot be sent, only the writer is registered; a
reset fires it too.

Invariant: a frame stays unchanged in its receive buffer until its response is sent or delayed.
Invariant: at most GATHER_BYTES_MAX bytes and one response are unsent.
Owner: the loop of the connection's processor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from odradek.broker.network.connection_services import ConnectionServices, EnqueueResult
from odradek.broker.network.purgatory import REQUEST_FAILED, RequestOutcome
from odradek.broker.network.receive_buffers import IncompleteFrame
from odradek.broker.network.request_accounting import RequestAccounting
from odradek.broker.network.send_buffer import SendBuffer
from odradek.broker.network.socket_watcher import SocketWatcher
from odradek.broker.network.transport import PeerDisconnected, Transport
from odradek.broker.request import DelayedOperation, Disconnect, RequestContext
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import SIZE

log = logging.getLogger("kafka.network")

# Copying so few bytes costs less than detaching the shared buffer while a response is pending.
COPY_BYTES_MAX = 16 * 1024

# Frames that begin within so many bytes are processed without reading the clock.  Most producers
# have five small requests in flight and should not pay for the few clients that send hundreds.
UNTIMED_BYTES_MAX = 1280

_SIZE_BYTES = SIZE.size
_unpack_size = SIZE.unpack_from


class Connection:
    """``last_used_at`` is the time at which bytes were last received or sent."""

    __slots__ = (
        "_accounting",
        "_buffered_input",
        "_held_buffer",
        "_incomplete_frame",
        "_is_blocked",
        "_is_draining",
        "_may_be_delayed",
        "_partial_size",
        "_send_buffer",
        "_services",
        "_submit",
        "_transport",
        "_watcher",
        "context",
        "is_awaiting_response",
        "is_closed",
        "last_used_at",
    )

    def __init__(
        self, transport: Transport, context: RequestContext, services: ConnectionServices
    ) -> None:
        self.context = context
        self.last_used_at = services.now()
        self.is_closed = False
        self._services = services
        self._submit = services.submit
        self._transport = transport
        self._send_buffer = SendBuffer(transport)
        #: The first bytes of a frame size, at most three.
        self._partial_size = b""
        self._incomplete_frame: IncompleteFrame | None = None
        #: The buffer of the frame that is being processed; it is released afterwards.
        self._held_buffer: memoryview | None = None
        #: Bytes received after that frame.
        self._buffered_input: memoryview | None = None
        self._accounting = RequestAccounting(services.memory_pool)
        #: Whether the last pending request needed its frame; the next one probably does too.
        self._may_be_delayed = False
        self.is_awaiting_response = False
        #: Whether processing is paused: no memory, a full request queue or the end of a time slice.
        self._is_blocked = False
        self._is_draining = False
        self._watcher = SocketWatcher(services.loop, transport.descriptor)

    @property
    def descriptor(self) -> int:
        return self._transport.descriptor

    @property
    def is_busy(self) -> bool:
        return self.is_awaiting_response or self._send_buffer.has_pending or self._is_blocked

    def start(self) -> None:
        self._run_guarded(self._resume_reading)

    def deliver(self, outcome: RequestOutcome) -> None:
        """Take the response that the connection waits for, or note that it is delayed."""
        self._run_guarded(self._on_outcome, outcome)

    def resume(self) -> None:
        """Continue after a pause: memory or queue space may be free, or a new time slice began."""
        if self._is_blocked and not self.is_closed:
            self._is_blocked = False
            self._run_guarded(self._process_next)

    def drain(self) -> None:
        """Read nothing more, and close as soon as no response is owed."""
        self._is_draining = True
        self._watcher.stop_reading()
        self._close_if_drained()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = self.context.is_closed = True
        self._watcher.stop()
        self._transport.close()
        self._send_buffer = SendBuffer(self._transport)
        if not self._accounting.needs_frame:
            self._accounting.release()
        # Not released to the pool: a handler may still use them.
        self._incomplete_frame = self._held_buffer = self._buffered_input = None
        self._services.on_closed(self)

    def _run_guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run ``step``; an error closes this connection only.  Every callback enters here."""
        try:
            step(*arguments)
        except (Disconnect, DecodeError) as error:
            self._services.failure_log.warn(
                "Closing socket for %s because of error: %s", self.context.connection_id, error
            )
            self.close()
        except PeerDisconnected as reason:
            log.debug("Connection with %s disconnected: %s", self.context.connection_id, reason)
            self.close()
        except Exception:
            log.exception("Closing socket for %s because of error", self.context.connection_id)
            self.close()

    # Requests

    def _on_readable(self) -> None:
        if self.is_busy:
            self._peek_for_reset()
        elif self._incomplete_frame is not None:
            self._fill_frame(self._incomplete_frame)
        elif self._services.memory_pool.is_exhausted and not self.context.is_from_this_broker:
            self._wait_for_memory()
        else:
            self._read()

    def _read(self) -> None:
        view = self._services.receive_buffers.shared
        carried = len(self._partial_size)
        if carried:
            view[:carried] = self._partial_size
        received = self._receive(view[carried:] if carried else view)
        if received:
            self._partial_size = b""
            end = carried + received
            if self._may_be_delayed and end <= COPY_BYTES_MAX:
                view = memoryview(bytearray(view[:end]))
            self._process_input(view, end)
            if self._transport.has_bytes_buffered:
                self._schedule_read()

    def _fill_frame(self, frame: IncompleteFrame) -> None:
        received = self._receive(frame.remaining)
        if received:
            frame.filled += received
            if frame.filled == frame.end:
                self._incomplete_frame, self._held_buffer = None, frame.view
                self._process_input(frame.view, frame.end)
            if self._transport.has_bytes_buffered:
                self._schedule_read()

    def _receive(self, buffer: memoryview) -> int:
        """Return the number of bytes received; 0 if there are none now, or at the end of input."""
        try:
            received = self._transport.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        if received:
            self.last_used_at = self._services.now()
            return received
        log.debug("Connection with %s disconnected", self.context.connection_id)
        self.close()
        return 0

    def _process_input(self, view: memoryview, end: int) -> None:
        """Process the received frames, and store the bytes that cannot be processed yet."""
        try:
            if end <= UNTIMED_BYTES_MAX:
                position = self._process_frames(view, 0, end, end)
            else:
                position = self._process_frames_sliced(view, end)
        finally:
            self._flush()
        if self.is_closed:
            return
        if self.is_busy:
            self._hold_buffer(view)
            self._buffered_input = view[position:end] if position < end else None
            if self.is_awaiting_response and not self._accounting.needs_frame:
                self._release_frame()
            return
        if self._accounting.reserved_bytes:
            self._accounting.release()
        if position < end:
            self._store_incomplete(view[position:end])
        if self._held_buffer is not None:
            self._release_buffer()

    def _process_frames_sliced(self, view: memoryview, end: int) -> int:
        """Like ``_process_frames``, but pause when the time slice is used up."""
        position, after = 0, self._process_frames(view, 0, UNTIMED_BYTES_MAX, end)
        time_slice: TimeSlice | None = None
        while position < after <= end - _SIZE_BYTES and not self.is_busy:
            time_slice = time_slice or TimeSlice()
            if time_slice.is_used_up:
                self._is_blocked = True
                self._services.loop.call_soon(self.resume)
                break
            position, after = after, self._process_frames(view, after, after + _SIZE_BYTES, end)
        return after

    def _process_frames(self, view: memoryview, position: int, limit: int, end: int) -> int:
        """Process the complete frames that begin before ``limit``, until one has to wait.

        Return the position of the first frame that is not submitted.
        """
        send_buffer, submit, context = self._send_buffer, self._submit, self.context
        while position + _SIZE_BYTES <= limit and not send_buffer.has_pending:
            (size,) = _unpack_size(view, position)
            if not 0 <= size <= self._services.frame_bytes_max:
                raise self._services.invalid_size_error(size)
            after: int = position + _SIZE_BYTES + size
            if after > end:
                break
            response = submit(view[position + _SIZE_BYTES : after], context)
            if isinstance(response, list):
                send_buffer.add(response)
            elif response is EnqueueResult.QUEUE_FULL:
                self._is_blocked = True
                break
            elif response is not None:
                # Do this first, before anything can fail: a handler uses the frame.
                self._hold_buffer(view)
                self._await_response(response, after - position)
                return after
            position = after
        return position

    def _await_response(self, response: Any, size: int) -> None:
        self.is_awaiting_response = True
        self._accounting.begin(response, size)
        self._may_be_delayed = self._accounting.needs_frame
        if response is not EnqueueResult.ENQUEUED:
            self._services.watch(response, self.context, self.deliver)

    def _store_incomplete(self, remainder: memoryview) -> None:
        """Store the beginning of a frame; its size, if received, is already validated."""
        if len(remainder) < _SIZE_BYTES:
            self._partial_size = bytes(remainder)
            return
        if self._services.memory_pool.is_exhausted and not self.context.is_from_this_broker:
            self._buffered_input = memoryview(bytearray(remainder))
            self._wait_for_memory()
            return
        size = _unpack_size(remainder)[0] + _SIZE_BYTES
        self._incomplete_frame = IncompleteFrame(
            self._services.receive_buffers.allocate(size), size, remainder
        )
        self._accounting.reserve(size)

    # Responses

    def _flush(self) -> None:
        send_buffer = self._send_buffer
        send_buffer.flush()
        if send_buffer.has_pending and not self._watcher.is_writing:
            self._watcher.watch_writable(self._run_guarded, self._on_writable)
            self._watcher.stop_reading()

    def _on_writable(self) -> None:
        self._send_buffer.push()
        self.last_used_at = self._services.now()
        if self._send_buffer.has_pending:
            return
        self._process_next()
        if not (self.is_busy or self.is_closed or self._is_draining):
            # A client that reads large responses has often sent its next request already.
            self._on_readable()
        if not self._send_buffer.has_pending:
            self._watch_readable()
            self._watcher.stop_writing()

    def _on_outcome(self, outcome: RequestOutcome) -> None:
        if isinstance(outcome, DelayedOperation):
            self._on_delayed(outcome)
            return
        self.is_awaiting_response = False
        self._accounting.end()
        if self.is_closed:
            self._accounting.release()
            self._services.on_last_request_done(self)
            return
        if outcome is REQUEST_FAILED:
            self.close()
            return
        if isinstance(outcome, Exception):
            raise outcome
        self.last_used_at = self._services.now()
        if outcome:
            self._send_buffer.add(outcome)
            self._flush()
        self._process_next()

    def _on_delayed(self, operation: DelayedOperation[Any]) -> None:
        self._accounting.delay(operation)
        if not operation.needs_frame:
            self._release_frame()
        if self._is_draining:
            self._close_if_drained()

    def _process_next(self) -> None:
        """After a response: process the buffered input, then resume reading."""
        if self._is_draining:
            self._close_if_drained()
        elif not self.is_busy:
            pending, self._buffered_input = self._buffered_input, None
            if pending is None:
                self._accounting.release()
                self._release_buffer()
            else:
                self._process_input(pending, len(pending))
            if not (self.is_busy or self._watcher.is_writing):
                self._resume_reading()

    # Read interest

    def _peek_for_reset(self) -> None:
        """The socket is readable while the connection is busy: a reset, or bytes to read later."""
        try:
            self._transport.peek()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        self._watcher.stop_reading()

    def _resume_reading(self) -> None:
        self._watch_readable()
        if self._transport.has_bytes_buffered:
            self._schedule_read()

    def _watch_readable(self) -> None:
        if not (self._watcher.is_reading or self.is_closed or self._is_draining):
            self._watcher.watch_readable(self._run_guarded, self._on_readable)

    def _schedule_read(self) -> None:
        """Read bytes that the transport has buffered; the event loop does not report them."""
        if not self.is_closed and not self.is_busy:
            self._services.loop.call_soon(self._run_guarded, self._read_if_open)

    def _read_if_open(self) -> None:
        if not self.is_closed:
            self._on_readable()

    def _wait_for_memory(self) -> None:
        self._is_blocked = True
        self._services.memory_pool.call_when_available(self.resume)

    def _close_if_drained(self) -> None:
        if not self._send_buffer.has_pending and not self._accounting.completes_on_shutdown:
            self.close()

    def _release_frame(self) -> None:
        """Release the frame's buffer; copy the input behind the frame out of it first."""
        if self._buffered_input is not None and self._held_buffer is not None:
            self._buffered_input = memoryview(bytearray(self._buffered_input))
        self._accounting.release()
        self._release_buffer()

    def _hold_buffer(self, view: memoryview) -> None:
        if view is self._services.receive_buffers.shared:
            self._held_buffer = self._services.receive_buffers.detach_shared()

    def _release_buffer(self) -> None:
        if self._held_buffer is not None:
            buffer, self._held_buffer = self._held_buffer, None
            self._services.receive_buffers.release(buffer)
