"""Whatever is asked, however it is cut and however slowly it is taken: the answers are in order."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker import turns
from odradek.broker.network import connection
from odradek.broker.network.surroundings import HandOver
from tests.support.scripted_connection import END, ScriptedConnection, framed

PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.integers(1, 9).map(lambda each: bytes([each]) * 20_000),
    st.integers(1, 9).map(lambda each: bytes([each]) * 150_000),
)
AT_ONCE, LATER, NEVER, NO_ROOM = "at once", "later", "never", "no room"
WAYS = st.sampled_from([AT_ONCE, AT_ONCE, LATER, NEVER, NO_ROOM])


def answer_to(number, frame):
    """Some have one part, and some have the frame itself among them."""
    return [b"%d:" % number, *[frame[:50_000], b";"] * (number % 3)]


class Later:
    def __init__(self, answer):
        self.answer = answer


class Answers:
    """``frames`` holds each frame as it lies in its buffer, and as it was."""

    def __init__(self, ways):
        self.ways = list(ways)
        self.expected = []
        self.frames = []

    def __call__(self, frame, _):
        if self.ways[0] == NO_ROOM:
            self.ways[0] = AT_ONCE
            return HandOver.NO_ROOM
        way = self.ways.pop(0)
        self.frames.append((frame, bytes(frame)))
        if way == NEVER:
            return None
        answer = answer_to(len(self.ways), frame)
        self.expected += map(bytes, answer)
        return answer if way == AT_ONCE else Later(answer)


def chunks_of(stream, cuts):
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(edges)]


@given(
    asked=st.lists(st.tuples(PAYLOADS, WAYS), max_size=8),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=12),
    takes=st.lists(st.integers(0, 30), max_size=30),
    ends=st.booleans(),
    at_once=st.integers(4, 100),
)
def test_every_frame_is_answered_once_and_in_order(asked, cuts, takes, ends, at_once):
    with patch.object(turns, "TURN_S", 0.0), patch.object(connection, "BYTES_AT_ONCE", at_once):
        all_are_answered(asked, cuts, takes, ends)


def all_are_answered(asked, cuts, takes, ends):
    answers = Answers(way for _, way in asked)
    stream = b"".join(framed(payload) for payload, _ in asked)
    scene = ScriptedConnection(answers, takes=takes)
    scene.comes(*chunks_of(stream, cuts), *[END] * ends)
    while scene.waiting or scene.connection._is_blocked:
        if scene.connection._is_blocked:
            scene.connection.resume()
            scene.run()
        else:
            frame, before = answers.frames[-1]
            assert frame == before
            scene.deliver(scene.waiting[0][0].answer)
    assert [copy for _, copy in answers.frames] == [payload for payload, _ in asked]
    assert scene.sent == b"".join(answers.expected)
    assert scene.memory.used_bytes == 0
    assert scene.transport.is_closed == ends


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_garbage_is_answered_or_closed_but_never_an_error(garbage, cuts):
    scene = ScriptedConnection(lambda frame, _: [b"x"], frame_bytes_max=100)
    scene.comes(*chunks_of(garbage, cuts), END)
    assert scene.ended == [scene.connection]
    assert len(scene.sent) == len(scene.asked)
