"""What has to wait for a peer: in order, uncut, and kept for no longer than that."""

import os
import weakref

import pytest

from odradek.broker.network.outbox import GATHERED_BYTES, JOINED_BYTES_MAX
from odradek.protocol.file_region import FileRegion
from tests.support.scripted_connection import ScriptedConnection, blocked, broken_pipe, echo, framed

STREAM = framed(b"first") + framed(b"") + framed(b"the third")
LARGE = os.urandom(200_000)
#: Of a region that goes out by sendfile.
UNJOINED = JOINED_BYTES_MAX + 1


def test_a_reset_while_an_answer_does_not_go_out_closes():
    scene = ScriptedConnection(echo, takes=[3, 0, 0])
    scene.transport.send_parts = broken_pipe
    scene.comes(STREAM)
    assert scene.ended == [scene.connection]


def test_an_answer_that_was_waited_for_goes_out_behind_those_that_are_stuck():
    scene = ScriptedConnection(lambda frame, _: [b"at once;"] if frame == b"1" else frame)
    send = scene.transport.send
    scene.transport.send = blocked
    scene.transport.send_parts = blocked
    scene.loop.run = lambda: scene.loop.reader and scene.loop._turn()
    scene.comes(framed(b"1") + framed(b"2") + framed(b"1"))
    scene.transport.send = send
    scene.deliver([b"later;"])
    assert scene.sent == b""
    del scene.transport.send_parts, scene.loop.run
    scene.run()
    assert scene.sent == b"at once;later;at once;"


def test_an_answer_that_the_peer_does_not_take_stops_the_reading():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHERED_BYTES)])
    scene.transport.send_parts = blocked
    scene.loop.run = lambda: scene.loop.reader and scene.loop._turn()
    scene.comes(framed(b"1") + framed(b"2"))
    assert scene.asked == [b"1"]
    assert (scene.loop.writer is not None, scene.loop.reader) == (True, None)


def test_what_was_asked_while_an_answer_did_not_go_out_is_answered_in_the_same_turn():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHERED_BYTES)], takes=[10])
    scene.transport.incoming.append(framed(b"1"))
    scene.loop._turn()
    scene.transport.incoming.append(framed(b"2"))
    scene.loop._turn()
    assert scene.asked == [b"1", b"2"]
    assert (scene.loop.writer, scene.loop.reader is not None) == (None, True)


def test_whoever_waits_for_an_answer_after_one_that_did_not_go_out_is_watched_again():
    scene = ScriptedConnection(lambda frame, _: [bytes(99)] if frame == b"1" else frame, takes=[9])
    scene.comes(framed(b"1") + framed(b"2"))
    assert (scene.asked, scene.loop.reader is not None) == ([b"1", b"2"], True)


def test_draining_reads_nothing_when_the_last_answer_has_gone_out():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHERED_BYTES)], takes=[10])
    scene.transport.incoming.append(framed(b"1"))
    scene.loop._turn()
    scene.connection.drain()
    scene.comes(framed(b"2"))
    assert (scene.asked, scene.ended) == ([b"1"], [scene.connection])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(LARGE)
    with path.open("rb") as opened:
        yield opened.fileno()


def test_file_regions_and_bytes_go_out_in_order(file):
    parts = [b"head", FileRegion(file, 5, 1000), b"", b"middle", FileRegion(file, 0, 0), b"|"]
    parts.append(FileRegion(file, len(LARGE) - 7, 7))
    scene = ScriptedConnection(lambda frame, _: parts, takes=[1, 2, 0, 5, 0, 600, 0, 300, 1, 0])
    scene.comes(framed(b"fetch") * 2)
    assert scene.sent == (b"head" + LARGE[5:1005] + b"middle|" + LARGE[-7:]) * 2


class Keeper:
    pass


def test_a_region_is_kept_until_its_last_byte_is_sent(file):
    keeper = Keeper()
    alive = weakref.ref(keeper)
    answers = [[b"head", FileRegion(file, 0, UNJOINED, keeper=keeper)]]
    del keeper
    states = []
    scene = ScriptedConnection(lambda frame, _: answers.pop())
    send_file = scene.transport.send_file

    def send_some(descriptor, *, position, length):
        states.append(alive() is not None)
        return send_file(descriptor, position=position, length=min(length, 10_000))

    scene.transport.send_file = send_some
    scene.comes(framed(b"fetch"))
    assert states == [True] * 4
    assert alive() is None
    assert len(scene.sent) == UNJOINED + 4


def test_a_connection_that_closes_lets_go_of_its_regions(file):
    keeper = Keeper()
    alive = weakref.ref(keeper)
    answers = [[b"head", FileRegion(file, 0, UNJOINED, keeper=keeper)]]
    del keeper
    scene = ScriptedConnection(lambda frame, _: answers.pop())
    scene.transport.send_parts = blocked
    scene.loop.run = lambda: scene.loop.reader and scene.loop._turn()
    scene.comes(framed(b"fetch"))
    assert alive() is not None
    scene.connection.close()
    assert alive() is None


def test_a_small_region_goes_out_with_what_is_around_it_and_is_let_go(file):
    keeper = Keeper()
    alive = weakref.ref(keeper)
    answers = [[b"head", FileRegion(file, 5, 1000, keeper=keeper), b"tail"]]
    del keeper
    scene = ScriptedConnection(lambda frame, _: answers.pop())
    writes = []
    scene.transport.send = lambda buffer: writes.append(bytes(buffer)) or len(buffer)
    scene.comes(framed(b"fetch"))
    assert writes == [b"head" + LARGE[5:1005] + b"tail"]
    assert alive() is None


@pytest.mark.parametrize("length", [10, UNJOINED])
def test_a_file_that_became_too_short_closes_the_connection(file, caplog, length):
    region = FileRegion(file, len(LARGE) - 5, length)
    scene = ScriptedConnection(lambda frame, _: [b"head", region])
    scene.comes(framed(b"fetch"))
    assert scene.transport.is_closed
    assert "has become too short" in caplog.text


@pytest.mark.parametrize("length", [10, UNJOINED])
def test_a_file_that_cannot_be_read_is_not_taken_for_a_peer_that_left(caplog, length):
    scene = ScriptedConnection(lambda frame, _: [b"head", FileRegion(-1, 0, length)])
    scene.comes(framed(b"fetch"))
    assert scene.transport.is_closed
    assert "FileRegion(descriptor=-1" in caplog.text


def test_frames_that_came_together_are_answered_by_one_write():
    scene = ScriptedConnection(echo)
    writes = []
    scene.transport.send = lambda buffer: writes.append(bytes(buffer)) or len(buffer)
    scene.comes(STREAM)
    assert writes == [STREAM]
