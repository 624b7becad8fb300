"""A connection with many pipelined requests, beside other connections."""

import pytest

from odradek.broker import time_slice
from odradek.broker.network.connection import UNTIMED_BYTES_MAX
from tests.support.scripted_connection import ScriptedConnection, echo, framed


@pytest.mark.parametrize("cut", [0, 3, 6])
def test_pipelined_requests_are_handled_in_time_slices(monkeypatch, cut):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    handled_before_other = []

    def handle(frame, context):
        if len(scene.asked) == 1:
            scene.loop.call_soon(lambda: handled_before_other.append(len(scene.asked)))
        return echo(frame, context)

    scene = ScriptedConnection(handle)
    requests = [b"%012d" % number for number in range(UNTIMED_BYTES_MAX // 4)]
    stream, last = b"".join(map(framed, requests)), framed(b"last")
    scene.comes(stream + last[:cut])
    scene.comes(last[cut:])
    assert handled_before_other == [UNTIMED_BYTES_MAX // 16]
    assert scene.asked == [*requests, b"last"]
    assert scene.sent == stream + last


def test_few_pipelined_requests_are_handled_in_one_time_slice(monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    scene = ScriptedConnection(echo)
    scene.loop.call_soon = None
    scene.comes(framed(b"%012d" % 0) * (UNTIMED_BYTES_MAX // 16))
    assert len(scene.asked) == UNTIMED_BYTES_MAX // 16
    assert not scene.ended
