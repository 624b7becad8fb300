"""Idle connections are closed in time; the clock is the test's own."""

import asyncio
import socket

from odradek.broker.call import Peer
from odradek.broker.network.processor import Limits, Processor
from tests.support.network_scene import Client, until
from tests.support.scripted_connection import echo, framed

IDLE_S = 600


class Scene:
    def __init__(self, answerer=echo, idle_s_max=IDLE_S):
        self.now = 1000.0
        self.ended = []
        self.waiting = []
        self.processor = Processor(
            ask=answerer,
            wait=lambda answer, peer, deliver: self.waiting.append(deliver),
            ended=lambda peer: self.ended.append(peer.connection_id),
            limits=Limits(1 << 20, -1, -1, idle_s_max),
            loop=asyncio.get_running_loop(),
            now=lambda: self.now,
        )

    def connect(self, name):
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self.processor.adopt(ours, Peer(name, "host", "PLAINTEXT"))
        return Client(theirs)


async def test_a_connection_on_which_nothing_happened_for_too_long_is_closed():
    scene = Scene()
    quiet, lively = scene.connect("quiet"), scene.connect("lively")
    scene.now += IDLE_S / 2
    assert await lively.ask(b"x") == b"x"
    scene.now += IDLE_S / 2 - 1
    scene.processor.close_idle()
    assert scene.ended == []
    scene.now += 1
    scene.processor.close_idle()
    assert scene.ended == ["quiet"]
    assert await quiet.is_ended()
    scene.now += IDLE_S / 2
    scene.processor.close_idle()
    assert scene.ended == ["quiet", "lively"]
    quiet.close(), lively.close()
    scene.processor.close_all()


async def test_part_of_a_frame_counts_as_something():
    scene = Scene()
    client = scene.connect("slow")
    scene.now += IDLE_S - 1
    await client.send(framed(b"abc")[:5])
    await until(lambda: scene.processor.connections()[0].used_at == scene.now)
    scene.now += 2
    scene.processor.close_idle()
    assert scene.ended == []
    client.close()
    scene.processor.close_all()


async def test_who_waits_for_an_answer_may_wait_for_as_long_as_any_other_but_no_longer():
    scene = Scene(lambda frame, peer: frame)
    client = scene.connect("waiting")
    await client.send(framed(b"x"))
    await until(lambda: scene.waiting)
    scene.now += IDLE_S - 1
    scene.processor.close_idle()
    assert scene.ended == []
    client.end_input()
    scene.now += 1
    scene.processor.close_idle()
    assert scene.ended == ["waiting"]
    scene.waiting[0]([framed(b"late")])
    client.close()
    scene.processor.close_all()


async def test_an_answer_that_came_late_makes_a_connection_lively_again():
    scene = Scene(lambda frame, peer: frame)
    client = scene.connect("waiting")
    await client.send(framed(b"x"))
    await until(lambda: scene.waiting)
    scene.now += IDLE_S - 1
    scene.waiting[0]([framed(b"late")])
    assert await client.receive() == b"late"
    scene.now += IDLE_S - 1
    scene.processor.close_idle()
    assert scene.ended == []
    client.close()
    scene.processor.close_all()


async def test_the_sweep_comes_by_itself_and_only_while_there_are_connections(monkeypatch):
    monkeypatch.setattr("odradek.broker.network.processor.SWEEP_INTERVAL_S", 0.001)
    scene = Scene(idle_s_max=0)
    client = scene.connect("quiet")
    assert await client.is_ended()
    assert scene.ended == ["quiet"]
    assert scene.processor._sweep is None
    client.close()


async def test_a_negative_time_is_for_ever():
    scene = Scene(idle_s_max=-1)
    client = scene.connect("quiet")
    scene.now += 1e9
    scene.processor.close_idle()
    assert scene.ended == []
    client.close()
    scene.processor.close_all()


async def test_the_dead_are_closed_even_if_the_loop_says_nothing():
    scene = Scene()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peers = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        for number in range(3):
            accepted, _ = listening.accept()
            accepted.setblocking(False)
            scene.processor.adopt(accepted, Peer(str(number), "host", "PLAINTEXT"))
            scene.processor._connections[str(number)]._watch.stop_reading()
    dead, ended, alive = map(Client, peers)
    dead.socket.sendall(b"unread")
    dead.reset()
    ended.end_input()
    scene.processor.close_dead()
    assert scene.ended == ["0"]
    ended.close(), alive.close()
    scene.processor.close_all()


async def test_of_each_connection_it_is_known_when_it_was_used_last():
    scene = Scene()
    assert scene.processor.connections() == []
    clients = [scene.connect(name) for name in "abc"]
    for client in clients:
        scene.now += 1
        await client.ask(b"x")
    scene.now += 1
    await clients[0].ask(b"x")
    used = sorted(scene.processor.connections(), key=lambda each: each.used_at)
    assert [each.peer.connection_id for each in used] == ["b", "c", "a"]
    scene.processor.close("b", "the test says so")
    scene.processor.close("b", "it is gone already")
    assert scene.ended == ["b"]
    for client in clients:
        client.close()
    scene.processor.close_all()
    assert sorted(scene.ended) == ["a", "b", "c"]


async def test_answers_for_those_who_have_gone_are_dropped():
    scene = Scene()
    scene.processor.deliver("nobody", [b"x"])
    scene.processor.resume("nobody")


async def test_what_comes_after_the_end_is_closed_at_once():
    scene = Scene()
    await scene.processor.drain()
    client = scene.connect("late")
    assert await client.is_ended()
    client.close()
