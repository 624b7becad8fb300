"""A connection on which many requests come at once, beside others."""

import pytest

from odradek.broker import turns
from odradek.broker.network.connection import BYTES_AT_ONCE
from tests.support.scripted_connection import ScriptedConnection, echo, framed


@pytest.mark.parametrize("cut", [0, 3, 6])
def test_others_have_their_turn_among_requests_that_came_together(monkeypatch, cut):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    seen_by_another = []

    def answer(frame, peer):
        if len(scene.asked) == 1:
            scene.loop.call_soon(lambda: seen_by_another.append(len(scene.asked)))
        return echo(frame, peer)

    scene = ScriptedConnection(answer)
    requests = [b"%012d" % number for number in range(BYTES_AT_ONCE // 4)]
    together, last = b"".join(map(framed, requests)), framed(b"last")
    scene.comes(together + last[:cut])
    scene.comes(last[cut:])
    assert seen_by_another == [BYTES_AT_ONCE // 16]
    assert scene.asked == [*requests, b"last"]
    assert scene.sent == together + last


def test_few_requests_that_came_together_are_answered_in_one_go(monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    scene = ScriptedConnection(echo)
    scene.loop.call_soon = None
    scene.comes(framed(b"%012d" % 0) * (BYTES_AT_ONCE // 16))
    assert len(scene.asked) == BYTES_AT_ONCE // 16
    assert not scene.ended
