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

from odradek.broker.call import Disconnect, Parked, Peer
from odradek.broker.network.outbox import Outbox
from odradek.broker.network.pending_answers import FAILED, Outcome
from odradek.broker.network.receive_buffers import IncompleteFrame
from odradek.broker.network.request_in_hand import RequestInHand
from odradek.broker.network.surroundings import HandOver, Surroundings
from odradek.broker.network.transport import PeerGone, Transport
from odradek.broker.network.watch import Watch
from odradek.broker.turns import Turn
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import SIZE

log = logging.getLogger(__name__)

# Copying so little costs less than lending the shared buffer while an answer is waited for.
COPIED_BYTES_MAX = 16 * 1024

# What begins in so many is answered without a look at the clock: the five small requests that most
# producers have in flight should not pay for the few clients that send hundreds.
BYTES_AT_ONCE = 1280

_SIZE_BYTES = SIZE.size
_size_at = SIZE.unpack_from


class Connection:
    """``used_at`` is when bytes last came or went."""

    __slots__ = (
        "_around",
        "_ask",
        "_carried",
        "_held",
        "_in_hand",
        "_is_blocked",
        "_is_draining",
        "_outbox",
        "_own",
        "_pending",
        "_transport",
        "_waits",
        "_watch",
        "is_awaiting",
        "is_closed",
        "peer",
        "used_at",
    )

    def __init__(self, transport: Transport, peer: Peer, around: Surroundings) -> None:
        self.peer = peer
        self.used_at = around.now()
        self.is_closed = False
        self._around = around
        self._ask = around.ask
        self._transport = transport
        self._outbox = Outbox(transport)
        #: Up to three bytes of a size.
        self._carried = b""
        self._own: IncompleteFrame | None = None
        #: The buffer in which the frame lies that is being answered, to be given back.
        self._held: memoryview | None = None
        #: What was received beyond that frame.
        self._pending: memoryview | None = None
        self._in_hand = RequestInHand(around.memory)
        #: Whether a handler was waited for before, and so may be again.
        self._waits = False
        self.is_awaiting = False
        #: Whether there is no room for what comes next, or others have their turn.
        self._is_blocked = False
        self._is_draining = False
        self._watch = Watch(around.loop, transport.descriptor)

    @property
    def descriptor(self) -> int:
        return self._transport.descriptor

    @property
    def is_busy(self) -> bool:
        return self.is_awaiting or self._outbox.is_stuck or self._is_blocked

    def begin(self) -> None:
        self._run(self._read_on)

    def deliver(self, outcome: Outcome) -> None:
        """The answer that was waited for, or that it has been parked."""
        self._run(self._answered, outcome)

    def resume(self) -> None:
        """There may be room now, and others have had their turn."""
        if self._is_blocked and not self.is_closed:
            self._is_blocked = False
            self._run(self._continue)

    def drain(self) -> None:
        """Close as soon as nothing is owed any more; read nothing until then."""
        self._is_draining = True
        self._watch.stop_reading()
        self._close_if_drained()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = self.peer.is_gone = True
        self._watch.stop()
        self._transport.close()
        self._outbox = Outbox(self._transport)
        if not self._in_hand.needs_frame:
            self._in_hand.uncount()
        # Not given back for others: a handler may be at work in them.
        self._own = self._held = self._pending = None
        self._around.ended(self)

    def _run(self, step: Callable[..., None], *arguments: Any) -> None:
        """The root of everything that happens here: a failure closes this connection alone."""
        try:
            step(*arguments)
        except (Disconnect, DecodeError) as broken:
            self._around.failures.warn("%s is closed: %s", self.peer.connection_id, broken)
            self.close()
        except PeerGone as gone:
            log.debug("%s is gone: %s", self.peer.connection_id, gone)
            self.close()
        except Exception:
            log.exception("%s is closed, since something failed", self.peer.connection_id)
            self.close()

    # Frames in.

    def _readable(self) -> None:
        if self.is_busy:
            self._look_ahead()
        elif self._own is not None:
            self._fill(self._own)
        elif self._around.memory.is_exhausted and not self.peer.is_own:
            self._wait_for_room()
        else:
            self._read()

    def _read(self) -> None:
        view = self._around.buffers.shared
        carried = len(self._carried)
        if carried:
            view[:carried] = self._carried
        received = self._receive(view[carried:] if carried else view)
        if received:
            self._carried = b""
            end = carried + received
            if self._waits and end <= COPIED_BYTES_MAX:
                view = memoryview(bytearray(view[:end]))
            self._consume(view, end)
            if self._transport.has_unread:
                self._read_unread()

    def _fill(self, own: IncompleteFrame) -> None:
        received = self._receive(own.missing)
        if received:
            own.filled += received
            if own.filled == own.end:
                self._own, self._held = None, own.view
                self._consume(own.view, own.end)
            if self._transport.has_unread:
                self._read_unread()

    def _receive(self, into: memoryview) -> int:
        """How many bytes came; 0 if none did, for now or for ever."""
        try:
            received = self._transport.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as lost:
            raise PeerGone(str(lost)) from lost
        if received:
            self.used_at = self._around.now()
            return received
        log.debug("%s ended", self.peer.connection_id)
        self.close()
        return 0

    def _consume(self, view: memoryview, end: int) -> None:
        """Answer what has come, and put aside what cannot be answered yet."""
        try:
            if end <= BYTES_AT_ONCE:
                position = self._answer(view, 0, end, end)
            else:
                position = self._answer_in_turns(view, end)
        finally:
            self._flush()
        if self.is_closed:
            return
        if self.is_busy:
            self._hold(view)
            self._pending = view[position:end] if position < end else None
            if self.is_awaiting and not self._in_hand.needs_frame:
                self._release_frame()
            return
        if self._in_hand.counted_bytes:
            self._in_hand.uncount()
        if position < end:
            self._put_aside(view[position:end])
        if self._held is not None:
            self._give_back()

    def _answer_in_turns(self, view: memoryview, end: int) -> int:
        """As below, but what is left when its turn is over waits for the next."""
        position, after = 0, self._answer(view, 0, BYTES_AT_ONCE, end)
        turn: Turn | None = None
        while position < after <= end - _SIZE_BYTES and not self.is_busy:
            turn = turn or Turn()
            if turn.is_over:
                self._is_blocked = True
                self._around.loop.call_soon(self.resume)
                break
            position, after = after, self._answer(view, after, after + _SIZE_BYTES, end)
        return after

    def _answer(self, view: memoryview, position: int, soon: int, end: int) -> int:
        """Where the first frame begins that is not answered, not whole, or not before ``soon``."""
        outbox, ask, peer = self._outbox, self._ask, self.peer
        while position + _SIZE_BYTES <= soon and not outbox.is_stuck:
            (size,) = _size_at(view, position)
            if not 0 <= size <= self._around.frame_bytes_max:
                raise self._around.refused(size)
            after: int = position + _SIZE_BYTES + size
            if after > end:
                break
            answer = ask(view[position + _SIZE_BYTES : after], peer)
            if isinstance(answer, list):
                outbox.add(answer)
            elif answer is HandOver.NO_ROOM:
                self._is_blocked = True
                break
            elif answer is not None:
                # Before anything else can fail: a handler is at work in the frame.
                self._hold(view)
                self._await(answer, after - position)
                return after
            position = after
        return position

    def _await(self, answer: Any, size: int) -> None:
        self.is_awaiting = True
        self._in_hand.begin(answer, size)
        self._waits = self._in_hand.needs_frame
        if answer is not HandOver.TAKEN:
            self._around.wait(answer, self.peer, self.deliver)

    def _put_aside(self, rest: memoryview) -> None:
        """The beginning of a frame, whose size was looked at if it is there."""
        if len(rest) < _SIZE_BYTES:
            self._carried = bytes(rest)
            return
        if self._around.memory.is_exhausted and not self.peer.is_own:
            self._pending = memoryview(bytearray(rest))
            self._wait_for_room()
            return
        size = _size_at(rest)[0] + _SIZE_BYTES
        self._own = IncompleteFrame(self._around.buffers.take(size), size, rest)
        self._in_hand.count(size)

    # Answers out.

    def _flush(self) -> None:
        outbox = self._outbox
        outbox.flush()
        if outbox.is_stuck and not self._watch.is_writing:
            self._watch.write(self._run, self._writable)
            self._watch.stop_reading()

    def _writable(self) -> None:
        self._outbox.push()
        self.used_at = self._around.now()
        if self._outbox.is_stuck:
            return
        self._continue()
        if not (self.is_busy or self.is_closed or self._is_draining):
            # Whoever asks for much has often asked for the next already.
            self._readable()
        if not self._outbox.is_stuck:
            self._watch_for_more()
            self._watch.stop_writing()

    def _answered(self, outcome: Outcome) -> None:
        if isinstance(outcome, Parked):
            self._parked(outcome)
            return
        self.is_awaiting = False
        self._in_hand.end()
        if self.is_closed:
            self._in_hand.uncount()
            self._around.settled(self)
            return
        if outcome is FAILED:
            self.close()
            return
        if isinstance(outcome, Exception):
            raise outcome
        self.used_at = self._around.now()
        if outcome:
            self._outbox.add(outcome)
            self._flush()
        self._continue()

    def _parked(self, parked: Parked[Any]) -> None:
        self._in_hand.park(parked)
        if not parked.needs_frame:
            self._release_frame()
        if self._is_draining:
            self._close_if_drained()

    def _continue(self) -> None:
        """After an answer: with what is here already, and then with what comes."""
        if self._is_draining:
            self._close_if_drained()
        elif not self.is_busy:
            pending, self._pending = self._pending, None
            if pending is None:
                self._in_hand.uncount()
                self._give_back()
            else:
                self._consume(pending, len(pending))
            if not (self.is_busy or self._watch.is_writing):
                self._read_on()

    # Reading, and not reading.

    def _look_ahead(self) -> None:
        """Something came while we are busy: a reset, or what will be read later."""
        try:
            self._transport.look_ahead()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as lost:
            raise PeerGone(str(lost)) from lost
        self._watch.stop_reading()

    def _read_on(self) -> None:
        self._watch_for_more()
        if self._transport.has_unread:
            self._read_unread()

    def _watch_for_more(self) -> None:
        if not (self._watch.is_reading or self.is_closed or self._is_draining):
            self._watch.read(self._run, self._readable)

    def _read_unread(self) -> None:
        """What the loop does not report, since the transport has it already."""
        if not self.is_closed and not self.is_busy:
            self._around.loop.call_soon(self._run, self._read_if_open)

    def _read_if_open(self) -> None:
        if not self.is_closed:
            self._readable()

    def _wait_for_room(self) -> None:
        self._is_blocked = True
        self._around.memory.wait(self.resume)

    def _close_if_drained(self) -> None:
        if not self._outbox.is_stuck and not self._in_hand.will_be_answered:
            self.close()

    def _release_frame(self) -> None:
        """What came after it must not lie in what another will be given."""
        if self._pending is not None and self._held is not None:
            self._pending = memoryview(bytearray(self._pending))
        self._in_hand.uncount()
        self._give_back()

    def _hold(self, view: memoryview) -> None:
        if view is self._around.buffers.shared:
            self._held = self._around.buffers.lend_shared()

    def _give_back(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._around.buffers.give_back(held)
