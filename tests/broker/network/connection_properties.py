"""Responses of a connection are in order for any requests, chunks of input and slow readers."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker import time_slice
from odradek.broker.network import connection
from odradek.broker.network.connection_services import EnqueueResult
from tests.support.scripted_connection import END, ScriptedConnection, framed

PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.integers(1, 9).map(lambda number: bytes([number]) * 20_000),
    st.integers(1, 9).map(lambda number: bytes([number]) * 150_000),
)
AT_ONCE, LATER, NEVER, NO_ROOM = "at once", "later", "never", "no room"
RESPONSE_KINDS = st.sampled_from([AT_ONCE, AT_ONCE, LATER, NEVER, NO_ROOM])


def response_parts(number, frame):
    """Some responses have one part, and some contain the frame itself."""
    return [b"%d:" % number, *[frame[:50_000], b";"] * (number % 3)]


class DelayedResponse:
    def __init__(self, parts):
        self.parts = parts


class FakeHandler:
    """``frames`` holds each frame as it lies in its buffer, and a copy from its arrival."""

    def __init__(self, kinds):
        self.kinds = list(kinds)
        self.expected = []
        self.frames = []

    def __call__(self, frame, _):
        if self.kinds[0] == NO_ROOM:
            self.kinds[0] = AT_ONCE
            return EnqueueResult.QUEUE_FULL
        kind = self.kinds.pop(0)
        self.frames.append((frame, bytes(frame)))
        if kind == NEVER:
            return None
        parts = response_parts(len(self.kinds), frame)
        self.expected += map(bytes, parts)
        return parts if kind == AT_ONCE else DelayedResponse(parts)


def split_stream(stream, cuts):
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(edges)]


@given(
    requests=st.lists(st.tuples(PAYLOADS, RESPONSE_KINDS), max_size=8),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=12),
    takes=st.lists(st.integers(0, 30), max_size=30),
    ends=st.booleans(),
    at_once=st.integers(4, 100),
)
def test_every_frame_is_answered_once_and_in_order(requests, cuts, takes, ends, at_once):
    with (
        patch.object(time_slice, "TIME_SLICE_S", 0.0),
        patch.object(connection, "UNTIMED_BYTES_MAX", at_once),
    ):
        check_responses(requests, cuts, takes, ends)


def check_responses(requests, cuts, takes, ends):
    handler = FakeHandler(kind for _, kind in requests)
    stream = b"".join(framed(payload) for payload, _ in requests)
    scene = ScriptedConnection(handler, takes=takes)
    scene.comes(*split_stream(stream, cuts), *[END] * ends)
    while scene.waiting or scene.connection._is_blocked:
        if scene.connection._is_blocked:
            scene.connection.resume()
            scene.run()
        else:
            frame, before = handler.frames[-1]
            assert frame == before
            scene.deliver(scene.waiting[0][0].parts)
    assert [copy for _, copy in handler.frames] == [payload for payload, _ in requests]
    assert scene.sent == b"".join(handler.expected)
    assert scene.memory.used_bytes == 0
    assert scene.transport.is_closed == ends


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_garbage_is_answered_or_closed_but_never_an_exception(garbage, cuts):
    scene = ScriptedConnection(lambda frame, _: [b"x"], frame_bytes_max=100)
    scene.comes(*split_stream(garbage, cuts), END)
    assert scene.ended == [scene.connection]
    assert len(scene.sent) == len(scene.asked)
