"""One connection: frames in, answers out, in the order in which the frames came.

A frame is four bytes of size, big-endian, and so many bytes.  The answer that comes at once is sent
in the same call; while one is waited for, or does not go out, the connection is busy: nothing more
is read.  What had been received already is answered next, without asking the kernel.  Of many that
came at once some are answered, and the next after others have had their turn.

Waiting for an answer costs nothing: the loop goes on watching, and only if it reports something is
it told to stop, after a look whether the peer is gone.  One that only ended its side gets answers.
While one does not go out the loop watches for room alone, which a reset makes too.

Invariant: a frame lies where it was received, untouched, until its answer is out or parked.
Invariant: what is unsent is no more than GATHERED_BYTES and one answer.
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

log = logging.getLogger(__name__)

# Copying so little costs less than lending the shared buffer while an answer is waited for.
COPY_BYTES_MAX = 16 * 1024

# What begins in so many is answered without a look at the clock: the five small requests that most
# producers have in flight should not pay for the few clients that send hundreds.
UNTIMED_BYTES_MAX = 1280

_SIZE_BYTES = SIZE.size
_unpack_size = SIZE.unpack_from


class Connection:
    """``used_at`` is when bytes last came or went."""

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
        #: Up to three bytes of a size.
        self._partial_size = b""
        self._incomplete_frame: IncompleteFrame | None = None
        #: The buffer in which the frame lies that is being answered, to be given back.
        self._held_buffer: memoryview | None = None
        #: What was received beyond that frame.
        self._buffered_input: memoryview | None = None
        self._accounting = RequestAccounting(services.memory_pool)
        #: Whether a handler was waited for before, and so may be again.
        self._may_be_delayed = False
        self.is_awaiting_response = False
        #: Whether there is no room for what comes next, or others have their turn.
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
        """The answer that was waited for, or that it has been parked."""
        self._run_guarded(self._on_outcome, outcome)

    def resume(self) -> None:
        """There may be room now, and others have had their turn."""
        if self._is_blocked and not self.is_closed:
            self._is_blocked = False
            self._run_guarded(self._process_next)

    def drain(self) -> None:
        """Close as soon as nothing is owed any more; read nothing until then."""
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
        # Not given back for others: a handler may be at work in them.
        self._incomplete_frame = self._held_buffer = self._buffered_input = None
        self._services.on_closed(self)

    def _run_guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """The root of everything that happens here: a failure closes this connection alone."""
        try:
            step(*arguments)
        except (Disconnect, DecodeError) as error:
            self._services.failure_log.warn("%s is closed: %s", self.context.connection_id, error)
            self.close()
        except PeerDisconnected as reason:
            log.debug("%s is gone: %s", self.context.connection_id, reason)
            self.close()
        except Exception:
            log.exception("%s is closed, since something failed", self.context.connection_id)
            self.close()

    # Frames in.

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
        """How many bytes came; 0 if none did, for now or for ever."""
        try:
            received = self._transport.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise PeerDisconnected(str(error)) from error
        if received:
            self.last_used_at = self._services.now()
            return received
        log.debug("%s ended", self.context.connection_id)
        self.close()
        return 0

    def _process_input(self, view: memoryview, end: int) -> None:
        """Answer what has come, and put aside what cannot be answered yet."""
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
        """As below, but what is left when its turn is over waits for the next."""
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
        """Where the first frame begins that is not answered, not whole, or not before ``soon``."""
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
                # Before anything else can fail: a handler is at work in the frame.
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
        """The beginning of a frame, whose size was looked at if it is there."""
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

    # Answers out.

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
            # Whoever asks for much has often asked for the next already.
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
        """After an answer: with what is here already, and then with what comes."""
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

    # Reading, and not reading.

    def _peek_for_reset(self) -> None:
        """Something came while we are busy: a reset, or what will be read later."""
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
        """What the loop does not report, since the transport has it already."""
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
        """What came after it must not lie in what another will be given."""
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
