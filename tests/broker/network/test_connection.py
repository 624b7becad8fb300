"""One connection, with everything that may come and everything that may not go out."""

import logging
from random import Random

import pytest

from odradek.broker.call import Disconnect
from odradek.broker.network.connection import COPIED_BYTES_MAX
from odradek.broker.network.receive_buffers import SHARED_BYTES
from odradek.broker.network.surroundings import HandOver
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


def later(frame, _):
    """Every frame is waited for."""
    return frame


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_may_be_cut_anywhere(cut):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (STREAM[:cut], STREAM[cut:])))
    assert scene.asked == [b"first", b"", b"the third"]
    assert scene.sent == STREAM


def test_a_stream_may_come_byte_by_byte():
    scene = ScriptedConnection(echo, [STREAM[at : at + 1] for at in range(len(STREAM))])
    scene.run()
    assert scene.sent == STREAM


@pytest.mark.parametrize(
    "cut", [1, 3, 4, 5, 1000, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1]
)
def test_a_frame_larger_than_a_buffer_is_received_whole(cut):
    stream = framed(b"small") + framed(LARGE) + framed(b"after")
    scene = ScriptedConnection(echo, [stream[:cut], stream[cut:]])
    scene.run()
    assert scene.asked == [b"small", LARGE, b"after"]
    assert scene.sent == stream


def test_what_is_not_answered_sends_nothing():
    scene = ScriptedConnection(lambda frame, _: None, [STREAM])
    scene.run()
    assert (len(scene.asked), scene.sent) == (3, b"")


def test_the_next_frame_is_handled_only_after_the_answer_before_it():
    scene = ScriptedConnection(later)
    scene.comes(STREAM)
    assert scene.asked == [b"first"]
    scene.deliver([b"1"])
    assert scene.asked == [b"first", b""]
    assert scene.sent == b"1"
    scene.deliver(None)
    scene.deliver([b"3"])
    assert scene.sent == b"13"


def test_answers_at_once_go_out_before_one_that_is_waited_for():
    scene = ScriptedConnection(lambda frame, _: [b"at once;"] if frame != b"" else frame)
    scene.comes(STREAM)
    assert scene.sent == b"at once;"
    scene.deliver([b"later;"])
    assert scene.sent == b"at once;later;at once;"


def test_a_frame_lies_untouched_while_its_answer_is_waited_for():
    kept = []
    scene = ScriptedConnection(lambda frame, _: kept.append(frame) or frame)
    for size in (10, COPIED_BYTES_MAX + 1, SHARED_BYTES * 2, 10):
        scene.comes(framed(b"\1" * size))
        scene.comes(framed(b"\2" * size), framed(b"\2" * size))
        assert kept[-1] == b"\1" * size
        for _ in range(3):
            scene.deliver(None)


def test_a_frame_lies_untouched_even_if_its_peer_is_gone_before_the_others():
    kept = []
    scene = ScriptedConnection(
        lambda frame, _: [b"x"] if frame == b"1" else kept.append(frame) or frame
    )
    scene.transport.send = broken_pipe
    scene.comes(framed(b"1") + framed(b"wait"))
    assert scene.transport.is_closed
    assert kept == [b"wait"]


def test_a_frame_can_be_written_to():
    def patched(frame, _):
        frame[:1] = b"X"
        return [bytes(frame)]

    scene = ScriptedConnection(patched)
    scene.comes(framed(b"abc"), framed(b"d" + LARGE))
    assert scene.sent == b"Xbc" + b"X" + LARGE


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x65", b"GET "])
def test_an_impossible_size_closes_before_anything_is_allocated(size, caplog):
    scene = ScriptedConnection(echo, frame_bytes_max=100)
    scene.buffers.take = None
    scene.comes(framed(b"good") + size)
    assert scene.sent == framed(b"good")
    assert scene.ended == [scene.connection]
    assert scene.transport.is_closed
    assert "where 0 to 100 are allowed" in caplog.text


def test_the_largest_size_is_allowed():
    scene = ScriptedConnection(echo, [framed(b"x" * 100)], frame_bytes_max=100)
    scene.run()
    assert scene.sent == framed(b"x" * 100)


@pytest.mark.parametrize("failure", [Disconnect("garbage"), DecodeError("garbage")])
def test_who_breaks_the_protocol_is_closed_with_one_line(failure, caplog):
    def refuse(frame, _):
        raise failure

    scene = ScriptedConnection(refuse)
    scene.comes(STREAM)
    assert scene.ended == [scene.connection]
    assert [record.getMessage() for record in caplog.records] == ["a-b-0 is closed: garbage"]
    assert caplog.records[0].exc_info is None


def test_an_unforeseen_failure_closes_one_connection_with_its_traceback(caplog):
    scene = ScriptedConnection(lambda frame, _: 1 / len(frame))
    scene.comes(framed(b""))
    assert scene.ended == [scene.connection]
    assert "ZeroDivisionError" in caplog.text
    assert len(caplog.records) == 1


def test_a_failure_of_the_disk_is_not_taken_for_a_peer_that_left(caplog):
    def fail(frame, _):
        raise OSError("disk")

    scene = ScriptedConnection(fail)
    scene.comes(framed(b"x"))
    assert scene.ended == [scene.connection]
    assert "OSError: disk" in caplog.text


def test_an_answer_that_is_refused_later_closes_too(caplog):
    scene = ScriptedConnection(later)
    scene.comes(STREAM)
    scene.deliver(Disconnect("too late"))
    assert scene.transport.is_closed
    assert "too late" in caplog.text


def test_a_peer_that_ended_its_side_gets_what_it_asked_for():
    scene = ScriptedConnection(later)
    scene.comes(STREAM, END)
    assert not scene.transport.is_closed
    for _ in range(3):
        scene.deliver([b"x"])
    assert scene.sent == b"xxx"
    assert scene.transport.is_closed


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6], framed(LARGE)[:-1]], ids=len)
def test_the_end_of_input_closes_wherever_it_comes(stream):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)), END)
    assert scene.ended == [scene.connection]


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6], framed(LARGE)[:-1]], ids=len)
def test_a_reset_closes_wherever_it_comes(stream, caplog):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)), ConnectionResetError())
    assert scene.ended == [scene.connection]
    assert caplog.records == []


def test_a_reset_while_an_answer_is_waited_for_drops_the_answer():
    scene = ScriptedConnection(later, bytes_max=1000)
    scene.comes(STREAM)
    scene.comes(ConnectionResetError())
    assert scene.ended == [scene.connection]
    assert scene.memory.used_bytes == 9, "a handler is at work in them"
    assert scene.settled == []
    scene.deliver([b"x"])
    assert scene.sent == b""
    assert scene.ended == scene.settled == [scene.connection]
    assert scene.memory.used_bytes == 0


def test_while_busy_nothing_is_read_and_nothing_is_spun():
    scene = ScriptedConnection(later)
    scene.comes(framed(b"first"))
    assert scene.loop.reader is not None
    scene.comes(framed(b"second"))
    assert scene.loop.reader is None
    assert scene.asked == [b"first"]
    scene.deliver(None)
    assert scene.asked == [b"first", b"second"]


def test_who_waits_again_and_again_keeps_no_more_than_the_frame():
    scene = ScriptedConnection(later)
    shared = scene.buffers.shared
    scene.comes(framed(b"the first is a surprise"))
    assert scene.buffers.shared is not shared
    scene.deliver(None)
    shared = scene.buffers.shared
    for _ in range(3):
        scene.comes(framed(b"x"))
        assert scene.buffers.shared is shared
        scene.deliver(None)


def test_memory_is_counted_while_a_large_frame_comes_and_while_it_is_answered():
    scene = ScriptedConnection(later)
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


def test_nothing_more_is_read_while_too_many_are_in_progress():
    scene = ScriptedConnection(later, requests_max=2)
    scene.memory.begin()
    scene.memory.begin()
    scene.comes(framed(b"1"))
    assert scene.asked == []
    scene.memory.end()
    scene.run()
    assert scene.asked == [b"1"]
    scene.deliver([b"x"])
    assert (scene.sent, scene.memory.in_progress) == (b"x", 1)


@pytest.mark.parametrize("received", [0, 12])
def test_without_memory_nothing_is_read_until_there_is_some(received):
    stream = framed(b"before") + framed(b"x" * 100)
    scene = ScriptedConnection(echo, bytes_max=50)
    scene.comes(*filter(None, (stream[:received],)))
    scene.memory.take(50)
    scene.comes(stream[received:])
    assert b"x" * 100 not in scene.asked
    scene.memory.give_back(50)
    scene.run()
    assert scene.asked == [b"before", b"x" * 100]
    assert scene.sent == stream
    assert scene.memory.used_bytes == 0


def test_the_beginning_of_a_frame_is_kept_until_there_is_memory_for_it():
    def exhaust(frame, peer):
        return scene.memory.take(50) if frame == b"before" else echo(frame, peer)

    scene = ScriptedConnection(exhaust, bytes_max=50)
    stream = framed(b"before") + framed(b"x" * 100)
    scene.comes(stream[:60])
    scene.comes(stream[60:])
    assert scene.asked == [b"before"]
    scene.memory.give_back(50)
    scene.run()
    assert scene.sent == framed(b"x" * 100)
    assert scene.memory.used_bytes == 0


def test_a_request_that_finds_no_room_is_asked_again():
    answers = [HandOver.NO_ROOM, HandOver.NO_ROOM, HandOver.TAKEN, [b"second"]]
    scene = ScriptedConnection(lambda frame, _: answers.pop(0))
    scene.comes(framed(b"1") + framed(b"2"))
    scene.connection.resume()
    scene.connection.resume()
    assert scene.asked == [b"1", b"1", b"1"]
    scene.connection.resume()
    assert len(scene.asked) == 3
    scene.connection.deliver([b"first"])
    assert scene.sent == b"firstsecond"


def test_draining_answers_what_was_begun_and_nothing_else():
    scene = ScriptedConnection(later)
    scene.comes(STREAM)
    scene.connection.drain()
    assert scene.loop.reader is None
    scene.deliver([b"answer"])
    assert scene.sent == b"answer"
    assert scene.transport.is_closed
    assert scene.asked == [b"first"]


@pytest.mark.parametrize("stream", [b"", STREAM[:2], STREAM[:6]])
def test_draining_closes_at_once_what_is_owed_nothing(stream):
    scene = ScriptedConnection(echo)
    scene.comes(*filter(None, (stream,)))
    scene.connection.drain()
    assert scene.transport.is_closed


def test_it_is_used_when_bytes_come_or_go():
    scene = ScriptedConnection(later)
    scene.now = 200.0
    scene.comes(framed(b"x"))
    assert scene.connection.used_at == 200.0
    scene.now = 300.0
    scene.deliver([b"x"])
    assert scene.connection.used_at == 300.0


def test_what_a_transport_holds_back_is_read_without_the_loop():
    scene = ScriptedConnection(echo)
    scene.transport.has_unread = True
    first, second = framed(b"1"), framed(b"2")

    def recv_into(view, recv_into=scene.transport.recv_into):
        received = recv_into(view)
        scene.transport.has_unread = bool(scene.transport.incoming)
        return received

    scene.transport.recv_into = recv_into
    scene.transport.incoming.extend([first, second])
    reader, scene.loop.reader = scene.loop.reader, None
    reader[0](*reader[1])
    scene.run()
    assert scene.sent == first + second


def test_buffers_are_given_back_and_used_again():
    scene = ScriptedConnection(later)
    places = set()
    for _ in range(5):
        scene.comes(framed(LARGE))
        places.add(id(scene.connection._held))
        scene.deliver(None)
    assert len(places) == 1


@pytest.mark.parametrize("answer", [None, [b"x"]])
@pytest.mark.parametrize("rest", [b"", b"\0", framed(LARGE)[:50]], ids=len)
def test_a_connection_that_is_closed_by_its_own_request_stays_closed(answer, rest):
    scene = ScriptedConnection(lambda frame, _: scene.connection.close() or answer)
    scene.transport.send = broken_pipe
    scene.comes(framed(b"stop") + rest)
    assert scene.ended == [scene.connection]
    assert scene.loop.reader is None
    assert scene.memory.used_bytes == 0


def test_a_peer_that_leaves_is_no_news(caplog):
    caplog.set_level(logging.INFO)
    scene = ScriptedConnection(echo)
    scene.comes(STREAM, END)
    assert caplog.records == []
