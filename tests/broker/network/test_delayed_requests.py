"""One connection whose request has been parked: what it keeps, and when it closes."""

import pytest

from odradek.broker.call import Parked
from odradek.broker.network.connection import COPIED_BYTES_MAX
from odradek.broker.network.receive_buffers import SHARED_BYTES
from tests.support.scripted_connection import ScriptedConnection, framed


def parked(**how):
    return Parked(None, **how)


@pytest.mark.parametrize("size", [10, COPIED_BYTES_MAX + 1, SHARED_BYTES * 2])
@pytest.mark.parametrize("is_later", [False, True])
def test_what_is_parked_gives_back_its_frame_but_keeps_what_came_after(size, is_later):
    scene = ScriptedConnection(lambda frame, _: frame if is_later else parked())
    given_back = []
    scene.buffers.give_back = given_back.append
    scene.comes(framed(b"\1" * size) + framed(b"\2" * 10) + framed(b"\3" * 10), framed(b"\4"))
    if is_later:
        scene.connection.deliver(parked())
    assert scene.connection._held is None
    assert len(given_back) == 1
    given_back[0][:] = b"\xee" * len(given_back[0])
    assert (scene.memory.used_bytes, scene.memory.in_progress) == (0, 0)
    for number in range(3):
        assert len(scene.asked) == number + 1
        scene.deliver([b"x"])
    assert scene.asked[1:] == [b"\2" * 10, b"\3" * 10, b"\4"]
    assert scene.sent == b"xxx"


def test_what_is_parked_may_need_its_frame():
    kept = []
    scene = ScriptedConnection(lambda frame, _: kept.append(frame) or parked(needs_frame=True))
    scene.comes(framed(b"\1" * 10))
    assert (scene.memory.used_bytes, scene.memory.in_progress) == (14, 0)
    scene.comes(ConnectionResetError())
    assert kept == [b"\1" * 10]
    assert scene.memory.used_bytes == 14
    scene.deliver(None)
    assert scene.memory.used_bytes == 0


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("ends_alone", [False, True])
def test_draining_closes_what_is_parked_unless_it_ends_alone(is_later, ends_alone):
    answer = parked(ends_alone=ends_alone)
    scene = ScriptedConnection(lambda frame, _: frame if is_later else answer)
    scene.comes(framed(b"x"))
    scene.connection.drain()
    if is_later:
        assert not scene.transport.is_closed
        scene.connection.deliver(answer)
    assert scene.transport.is_closed is not ends_alone
    scene.deliver([b"x"])
    assert scene.sent == b"x" * ends_alone
    assert scene.transport.is_closed
