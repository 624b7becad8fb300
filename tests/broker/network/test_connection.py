"""One connection: input in any chunks, responses now or later, errors, limits and draining."""

import logging
from random import Random

import pytest

from odradek.broker.network.connection import COPY_BYTES_MAX
from odradek.broker.network.connection_services import EnqueueResult
from odradek.broker.network.receive_buffers import SHARED_BYTES
from odradek.broker.request import Disconnect
from odradek.protocol.errors import DecodeError
from tests.support.scripted_connection import (
    END,
    ScriptedConnection,
    broken_pipe,
    echo,
    framed,
)

STREAM = framed(b"first") + framed(b"") + framed(b"the third")
LARGE = Random(0).randbytes(3 * SHARED_BYTES)


def delay(frame, _):
    """Delays the response to every frame."""
    return frame


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_stream_may_be_split_anywhere(cut):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (STREAM[:cut], STREAM[cut:])))
    assert scene.asked == [b"first", b"", b"the third"]
    assert scene.sent == STREAM


def test_stream_may_arrive_byte_by_byte():
    scene = ScriptedConnection(
        echo, [STREAM[position : position + 1] for position in range(len(STREAM))]
    )
    scene.run()
    assert scene.sent == STREAM


@pytest.mark.parametrize(
    "cut", [1, 3, 4, 5, 1000, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1]
)
def test_frame_larger_than_a_buffer_is_received_whole(cut):
    stream = framed(b"small") + framed(LARGE) + framed(b"after")
    scene = ScriptedConnection(echo, [stream[:cut], stream[cut:]])
    scene.run()
    assert scene.asked == [b"small", LARGE, b"after"]
    assert scene.sent == stream


def test_request_without_response_sends_nothing():
    scene = ScriptedConnection(lambda frame, _: None, [STREAM])
    scene.run()
    assert (len(scene.asked), scene.sent) == (3, b"")


def test_next_frame_is_handled_only_after_the_previous_response():
    scene = ScriptedConnection(delay)
    scene.comes(STREAM)
    assert scene.asked == [b"first"]
    scene.deliver([b"1"])
    assert scene.asked == [b"first", b""]
    assert scene.sent == b"1"
    scene.deliver(None)
    scene.deliver([b"3"])
    assert scene.sent == b"13"


def test_immediate_responses_are_sent_before_a_delayed_one():
    scene = ScriptedConnection(lambda frame, _: [b"at once;"] if frame != b"" else frame)
    scene.comes(STREAM)
    assert scene.sent == b"at once;"
    scene.deliver([b"later;"])
    assert scene.sent == b"at once;later;at once;"


def test_frame_is_not_overwritten_while_its_response_is_delayed():
    frames = []
    scene = ScriptedConnection(lambda frame, _: frames.append(frame) or frame)
    for size in (10, COPY_BYTES_MAX + 1, SHARED_BYTES * 2, 10):
        scene.comes(framed(b"\1" * size))
        scene.comes(framed(b"\2" * size), framed(b"\2" * size))
        assert frames[-1] == b"\1" * size
        for _ in range(3):
            scene.deliver(None)


def test_frame_is_not_overwritten_if_the_connection_breaks_before_its_response():
    frames = []
    scene = ScriptedConnection(
        lambda frame, _: [b"x"] if frame == b"1" else frames.append(frame) or frame
    )
    scene.transport.send = broken_pipe
    scene.comes(framed(b"1") + framed(b"wait"))
    assert scene.transport.is_closed
    assert frames == [b"wait"]


def test_frame_is_writable():
    def overwrite(frame, _):
        frame[:1] = b"X"
        return [bytes(frame)]

    scene = ScriptedConnection(overwrite)
    scene.comes(framed(b"abc"), framed(b"d" + LARGE))
    assert scene.sent == b"Xbc" + b"X" + LARGE


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x65", b"GET "])
def test_invalid_size_closes_the_connection_before_an_allocation(size, caplog):
    scene = ScriptedConnection(echo, frame_bytes_max=100)
    scene.buffers.allocate = None
    scene.comes(framed(b"good") + size)
    assert scene.sent == framed(b"good")
    assert scene.ended == [scene.connection]
    assert scene.transport.is_closed
    assert "must be between 0 and 100" in caplog.text


def test_frame_of_the_maximum_size_is_accepted():
    scene = ScriptedConnection(echo, [framed(b"x" * 100)], frame_bytes_max=100)
    scene.run()
    assert scene.sent == framed(b"x" * 100)


@pytest.mark.parametrize("error", [Disconnect("garbage"), DecodeError("garbage")])
def test_protocol_error_closes_the_connection_with_one_log_line(error, caplog):
    def reject(frame, _):
        raise error

    scene = ScriptedConnection(reject)
    scene.comes(STREAM)
    assert scene.ended == [scene.connection]
    assert [record.getMessage() for record in caplog.records] == [
        "Closing socket for a-b-0 because of error: garbage"
    ]
    assert caplog.records[0].exc_info is None


def test_unexpected_exception_closes_one_connection_with_its_traceback(caplog):
    scene = ScriptedConnection(lambda frame, _: 1 / len(frame))
    scene.comes(framed(b""))
    assert scene.ended == [scene.connection]
    assert "ZeroDivisionError" in caplog.text
    assert len(caplog.records) == 1


def test_os_error_of_the_handler_is_not_taken_for_a_disconnect(caplog):
    def fail(frame, _):
        raise OSError("disk")

    scene = ScriptedConnection(fail)
    scene.comes(framed(b"x"))
    assert scene.ended == [scene.connection]
    assert "OSError: disk" in caplog.text


def test_error_of_a_delayed_response_closes_the_connection(caplog):
    scene = ScriptedConnection(delay)
    scene.comes(STREAM)
    scene.deliver(Disconnect("too late"))
    assert scene.transport.is_closed
    assert "too late" in caplog.text


def test_client_that_ended_its_output_gets_its_responses():
    scene = ScriptedConnection(delay)
    scene.comes(STREAM, END)
    assert not scene.transport.is_closed
    for _ in range(3):
        scene.deliver([b"x"])
    assert scene.sent == b"xxx"
    assert scene.transport.is_closed


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6], framed(LARGE)[:-1]], ids=len)
def test_end_of_input_closes_the_connection_at_any_position(stream):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)), END)
    assert scene.ended == [scene.connection]


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6], framed(LARGE)[:-1]], ids=len)
def test_reset_closes_the_connection_at_any_position(stream, caplog):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)), ConnectionResetError())
    assert scene.ended == [scene.connection]
    assert caplog.records == []


def test_reset_drops_a_delayed_response():
    scene = ScriptedConnection(delay, bytes_max=1000)
    scene.comes(STREAM)
    scene.comes(ConnectionResetError())
    assert scene.ended == [scene.connection]
    assert scene.memory.used_bytes == 9, "a handler is at work in them"
    assert scene.settled == []
    scene.deliver([b"x"])
    assert scene.sent == b""
    assert scene.ended == scene.settled == [scene.connection]
    assert scene.memory.used_bytes == 0


def test_input_is_not_read_while_a_request_is_in_progress():
    scene = ScriptedConnection(delay)
    scene.comes(framed(b"first"))
    assert scene.loop.reader is not None
    scene.comes(framed(b"second"))
    assert scene.loop.reader is None
    assert scene.asked == [b"first"]
    scene.deliver(None)
    assert scene.asked == [b"first", b"second"]


def test_repeatedly_delayed_connection_copies_the_frame_and_keeps_the_buffer():
    scene = ScriptedConnection(delay)
    shared = scene.buffers.shared
    scene.comes(framed(b"the first is a surprise"))
    assert scene.buffers.shared is not shared
    scene.deliver(None)
    shared = scene.buffers.shared
    for _ in range(3):
        scene.comes(framed(b"x"))
        assert scene.buffers.shared is shared
        scene.deliver(None)


def test_memory_is_counted_while_a_large_frame_is_received_and_handled():
    scene = ScriptedConnection(delay)
    scene.comes(framed(LARGE)[:100])
    assert scene.memory.used_bytes == len(LARGE) + 4
    scene.comes(framed(LARGE)[100:])
    assert scene.memory.used_bytes == len(LARGE) + 4
    scene.deliver([b"x"])
    assert scene.memory.used_bytes == 0
    scene.comes(framed(b"small"))
    assert scene.memory.used_bytes == 9
    scene.deliver([b"x"])
    assert scene.memory.used_bytes == 0
    scene.comes(framed(LARGE)[:100])
    scene.connection.close()
    assert scene.memory.used_bytes == 0


def test_input_is_not_read_while_too_many_requests_are_in_progress():
    scene = ScriptedConnection(delay, requests_max=2)
    scene.memory.begin_request()
    scene.memory.begin_request()
    scene.comes(framed(b"1"))
    assert scene.asked == []
    scene.memory.end_request()
    scene.run()
    assert scene.asked == [b"1"]
    scene.deliver([b"x"])
    assert (scene.sent, scene.memory.requests_in_progress) == (b"x", 1)


@pytest.mark.parametrize("received", [0, 12])
def test_input_is_not_read_until_memory_is_available(received):
    stream = framed(b"before") + framed(b"x" * 100)
    scene = ScriptedConnection(echo, bytes_max=50)
    scene.comes(*filter(None, (stream[:received],)))
    scene.memory.reserve(50)
    scene.comes(stream[received:])
    assert b"x" * 100 not in scene.asked
    scene.memory.release(50)
    scene.run()
    assert scene.asked == [b"before", b"x" * 100]
    assert scene.sent == stream
    assert scene.memory.used_bytes == 0


def test_start_of_a_frame_is_kept_until_memory_is_available():
    def exhaust(frame, context):
        return scene.memory.reserve(50) if frame == b"before" else echo(frame, context)

    scene = ScriptedConnection(exhaust, bytes_max=50)
    stream = framed(b"before") + framed(b"x" * 100)
    scene.comes(stream[:60])
    scene.comes(stream[60:])
    assert scene.asked == [b"before"]
    scene.memory.release(50)
    scene.run()
    assert scene.sent == framed(b"x" * 100)
    assert scene.memory.used_bytes == 0


def test_request_is_submitted_again_after_a_full_queue():
    results = [
        EnqueueResult.QUEUE_FULL,
        EnqueueResult.QUEUE_FULL,
        EnqueueResult.ENQUEUED,
        [b"second"],
    ]
    scene = ScriptedConnection(lambda frame, _: results.pop(0))
    scene.comes(framed(b"1") + framed(b"2"))
    scene.connection.resume()
    scene.connection.resume()
    assert scene.asked == [b"1", b"1", b"1"]
    scene.connection.resume()
    assert len(scene.asked) == 3
    scene.connection.deliver([b"first"])
    assert scene.sent == b"firstsecond"


def test_drain_answers_requests_in_progress_and_no_others():
    scene = ScriptedConnection(delay)
    scene.comes(STREAM)
    scene.connection.drain()
    assert scene.loop.reader is None
    scene.deliver([b"answer"])
    assert scene.sent == b"answer"
    assert scene.transport.is_closed
    assert scene.asked == [b"first"]


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6]])
def test_drain_closes_an_idle_connection_at_once(stream):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)))
    scene.connection.drain()
    assert scene.transport.is_closed


def test_last_used_time_is_that_of_the_last_bytes_in_or_out():
    scene = ScriptedConnection(delay)
    scene.now = 200.0
    scene.comes(framed(b"x"))
    assert scene.connection.last_used_at == 200.0
    scene.now = 300.0
    scene.deliver([b"x"])
    assert scene.connection.last_used_at == 300.0


def test_bytes_buffered_in_the_transport_are_read_without_the_loop():
    scene = ScriptedConnection(echo)
    scene.transport.has_bytes_buffered = True
    first, second = framed(b"1"), framed(b"2")

    def recv_into(view, recv_into=scene.transport.recv_into):
        received = recv_into(view)
        scene.transport.has_bytes_buffered = bool(scene.transport.incoming)
        return received

    scene.transport.recv_into = recv_into
    scene.transport.incoming.extend([first, second])
    reader, scene.loop.reader = scene.loop.reader, None
    reader[0](*reader[1])
    scene.run()
    assert scene.sent == first + second


def test_buffers_are_released_and_used_again():
    scene = ScriptedConnection(delay)
    buffer_ids = set()
    for _ in range(5):
        scene.comes(framed(LARGE))
        buffer_ids.add(id(scene.connection._held_buffer))
        scene.deliver(None)
    assert len(buffer_ids) == 1


@pytest.mark.parametrize("response", [None, [b"x"]])
@pytest.mark.parametrize("rest", [b"", b"\0", framed(LARGE)[:50]], ids=len)
def test_connection_closed_by_its_own_request_stays_closed(response, rest):
    scene = ScriptedConnection(lambda frame, _: scene.connection.close() or response)
    scene.transport.send = broken_pipe
    scene.comes(framed(b"stop") + rest)
    assert scene.ended == [scene.connection]
    assert scene.loop.reader is None
    assert scene.memory.used_bytes == 0


def test_disconnect_of_a_client_is_not_logged(caplog):
    caplog.set_level(logging.INFO)
    scene = ScriptedConnection(echo)
    scene.comes(STREAM, END)
    assert caplog.records == []
