"""A connection whose request is delayed: what it holds, and when it closes."""

import pytest

from odradek.broker.network.connection import COPY_BYTES_MAX
from odradek.broker.network.receive_buffers import SHARED_BYTES
from odradek.broker.request import DelayedOperation
from tests.support.scripted_connection import ScriptedConnection, framed


def delayed_operation(**options):
    return DelayedOperation(None, **options)


@pytest.mark.parametrize("size", [10, COPY_BYTES_MAX + 1, SHARED_BYTES * 2])
@pytest.mark.parametrize("is_later", [False, True])
def test_delayed_request_releases_its_frame_and_keeps_the_next_ones(size, is_later):
    scene = ScriptedConnection(lambda frame, _: frame if is_later else delayed_operation())
    released = []
    scene.buffers.release = released.append
    scene.comes(framed(b"\1" * size) + framed(b"\2" * 10) + framed(b"\3" * 10), framed(b"\4"))
    if is_later:
        scene.connection.deliver(delayed_operation())
    assert scene.connection._held_buffer is None
    assert len(released) == 1
    released[0][:] = b"\xee" * len(released[0])
    assert (scene.memory.used_bytes, scene.memory.requests_in_progress) == (0, 0)
    for number in range(3):
        assert len(scene.asked) == number + 1
        scene.deliver([b"x"])
    assert scene.asked[1:] == [b"\2" * 10, b"\3" * 10, b"\4"]
    assert scene.sent == b"xxx"


def test_delayed_request_may_keep_its_frame():
    frames = []
    scene = ScriptedConnection(
        lambda frame, _: frames.append(frame) or delayed_operation(needs_frame=True)
    )
    scene.comes(framed(b"\1" * 10))
    assert (scene.memory.used_bytes, scene.memory.requests_in_progress) == (14, 0)
    scene.comes(ConnectionResetError())
    assert frames == [b"\1" * 10]
    assert scene.memory.used_bytes == 14
    scene.deliver(None)
    assert scene.memory.used_bytes == 0


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("completes_on_shutdown", [False, True])
def test_drain_closes_a_delayed_request_unless_it_completes_on_shutdown(
    is_later, completes_on_shutdown
):
    operation = delayed_operation(completes_on_shutdown=completes_on_shutdown)
    scene = ScriptedConnection(lambda frame, _: frame if is_later else operation)
    scene.comes(framed(b"x"))
    scene.connection.drain()
    if is_later:
        assert not scene.transport.is_closed
        scene.connection.deliver(operation)
    assert scene.transport.is_closed is not completes_on_shutdown
    scene.deliver([b"x"])
    assert scene.sent == b"x" * completes_on_shutdown
    assert scene.transport.is_closed
