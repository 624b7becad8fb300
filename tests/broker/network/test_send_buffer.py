"""Responses that wait for a slow client: in order, complete, and released when they are sent."""

import os
import weakref

import pytest

from odradek.broker.network.send_buffer import GATHER_BYTES_MAX, JOINED_BYTES_MAX
from odradek.protocol.file_region import FileRegion
from tests.support.scripted_connection import ScriptedConnection, blocked, broken_pipe, echo, framed

STREAM = framed(b"first") + framed(b"") + framed(b"the third")
LARGE = os.urandom(200_000)
#: The length of a region that is sent by sendfile.
SENDFILE_BYTES = JOINED_BYTES_MAX + 1


def test_reset_while_a_response_is_unsent_closes_the_connection():
    scene = ScriptedConnection(echo, takes=[3, 0, 0])
    scene.transport.send_parts = broken_pipe
    scene.comes(STREAM)
    assert scene.ended == [scene.connection]


def test_delayed_response_is_sent_after_unsent_ones():
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


def test_unsent_response_stops_reading():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHER_BYTES_MAX)])
    scene.transport.send_parts = blocked
    scene.loop.run = lambda: scene.loop.reader and scene.loop._turn()
    scene.comes(framed(b"1") + framed(b"2"))
    assert scene.asked == [b"1"]
    assert (scene.loop.writer is not None, scene.loop.reader) == (True, None)


def test_request_received_during_an_unsent_response_is_handled_when_it_is_sent():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHER_BYTES_MAX)], takes=[10])
    scene.transport.incoming.append(framed(b"1"))
    scene.loop._turn()
    scene.transport.incoming.append(framed(b"2"))
    scene.loop._turn()
    assert scene.asked == [b"1", b"2"]
    assert (scene.loop.writer, scene.loop.reader is not None) == (None, True)


def test_connection_is_watched_while_a_request_after_an_unsent_response_is_delayed():
    scene = ScriptedConnection(lambda frame, _: [bytes(99)] if frame == b"1" else frame, takes=[9])
    scene.comes(framed(b"1") + framed(b"2"))
    assert (scene.asked, scene.loop.reader is not None) == ([b"1", b"2"], True)


def test_drain_reads_nothing_after_the_last_response():
    scene = ScriptedConnection(lambda frame, _: [bytes(GATHER_BYTES_MAX)], takes=[10])
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


def test_file_regions_and_bytes_are_sent_in_order(file):
    parts = [b"head", FileRegion(file, 5, 1000), b"", b"middle", FileRegion(file, 0, 0), b"|"]
    parts.append(FileRegion(file, len(LARGE) - 7, 7))
    scene = ScriptedConnection(lambda frame, _: parts, takes=[1, 2, 0, 5, 0, 600, 0, 300, 1, 0])
    scene.comes(framed(b"fetch") * 2)
    assert scene.sent == (b"head" + LARGE[5:1005] + b"middle|" + LARGE[-7:]) * 2


class FileOwner:
    pass


def test_region_holds_its_file_until_the_last_byte_is_sent(file):
    file_owner = FileOwner()
    owner_reference = weakref.ref(file_owner)
    responses = [[b"head", FileRegion(file, 0, SENDFILE_BYTES, file=file_owner)]]
    del file_owner
    was_alive = []
    scene = ScriptedConnection(lambda frame, _: responses.pop())
    send_file = scene.transport.send_file

    def send_some(descriptor, *, position, length):
        was_alive.append(owner_reference() is not None)
        return send_file(descriptor, position=position, length=min(length, 10_000))

    scene.transport.send_file = send_some
    scene.comes(framed(b"fetch"))
    assert was_alive == [True] * 4
    assert owner_reference() is None
    assert len(scene.sent) == SENDFILE_BYTES + 4


def test_closed_connection_releases_its_regions(file):
    file_owner = FileOwner()
    owner_reference = weakref.ref(file_owner)
    responses = [[b"head", FileRegion(file, 0, SENDFILE_BYTES, file=file_owner)]]
    del file_owner
    scene = ScriptedConnection(lambda frame, _: responses.pop())
    scene.transport.send_parts = blocked
    scene.loop.run = lambda: scene.loop.reader and scene.loop._turn()
    scene.comes(framed(b"fetch"))
    assert owner_reference() is not None
    scene.connection.close()
    assert owner_reference() is None


def test_small_region_is_sent_with_its_neighbours_and_released(file):
    file_owner = FileOwner()
    owner_reference = weakref.ref(file_owner)
    responses = [[b"head", FileRegion(file, 5, 1000, file=file_owner), b"tail"]]
    del file_owner
    scene = ScriptedConnection(lambda frame, _: responses.pop())
    writes = []
    scene.transport.send = lambda buffer: writes.append(bytes(buffer)) or len(buffer)
    scene.comes(framed(b"fetch"))
    assert writes == [b"head" + LARGE[5:1005] + b"tail"]
    assert owner_reference() is None


@pytest.mark.parametrize("length", [10, SENDFILE_BYTES])
def test_file_that_became_too_short_closes_the_connection(file, caplog, length):
    region = FileRegion(file, len(LARGE) - 5, length)
    scene = ScriptedConnection(lambda frame, _: [b"head", region])
    scene.comes(framed(b"fetch"))
    assert scene.transport.is_closed
    assert "is too short" in caplog.text


@pytest.mark.parametrize("length", [10, SENDFILE_BYTES])
def test_unreadable_file_is_not_taken_for_a_disconnect(caplog, length):
    scene = ScriptedConnection(lambda frame, _: [b"head", FileRegion(-1, 0, length)])
    scene.comes(framed(b"fetch"))
    assert scene.transport.is_closed
    assert "FileRegion(descriptor=-1" in caplog.text


def test_responses_to_frames_received_together_are_sent_by_one_write():
    scene = ScriptedConnection(echo)
    writes = []
    scene.transport.send = lambda buffer: writes.append(bytes(buffer)) or len(buffer)
    scene.comes(STREAM)
    assert writes == [STREAM]
