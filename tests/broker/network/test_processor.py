"""Connections of a processor: idle and dead ones are closed. The clock is a fake."""

import asyncio
import socket

from odradek.broker.network.processor import Processor, ProcessorLimits
from odradek.broker.request import RequestContext
from tests.support.network_scene import Client, until
from tests.support.scripted_connection import echo, framed

IDLE_S = 600


class Scene:
    def __init__(self, handler=echo, idle_s_max=IDLE_S):
        self.now = 1000.0
        self.ended = []
        self.waiting = []
        self.processor = Processor(
            submit=handler,
            watch=lambda operation, context, deliver: self.waiting.append(deliver),
            on_closed=lambda context: self.ended.append(context.connection_id),
            limits=ProcessorLimits(1 << 20, -1, -1, idle_s_max),
            loop=asyncio.get_running_loop(),
            now=lambda: self.now,
        )

    def connect(self, name):
        server_socket, client_socket = socket.socketpair()
        for end in (server_socket, client_socket):
            end.setblocking(False)
        self.processor.accept(server_socket, RequestContext(name, "host", "PLAINTEXT"))
        return Client(client_socket)


async def test_idle_connection_is_closed():
    scene = Scene()
    idle, active = scene.connect("quiet"), scene.connect("lively")
    scene.now += IDLE_S / 2
    assert await active.ask(b"x") == b"x"
    scene.now += IDLE_S / 2 - 1
    scene.processor.close_idle()
    assert scene.ended == []
    scene.now += 1
    scene.processor.close_idle()
    assert scene.ended == ["quiet"]
    assert await idle.is_ended()
    scene.now += IDLE_S / 2
    scene.processor.close_idle()
    assert scene.ended == ["quiet", "lively"]
    idle.close(), active.close()
    scene.processor.close_all()


async def test_part_of_a_frame_resets_the_idle_time():
    scene = Scene()
    client = scene.connect("slow")
    scene.now += IDLE_S - 1
    await client.send(framed(b"abc")[:5])
    await until(lambda: scene.processor.connections()[0].last_used_at == scene.now)
    scene.now += 2
    scene.processor.close_idle()
    assert scene.ended == []
    client.close()
    scene.processor.close_all()


async def test_connection_that_waits_for_a_response_has_the_same_idle_time():
    scene = Scene(lambda frame, context: frame)
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


async def test_late_response_resets_the_idle_time():
    scene = Scene(lambda frame, context: frame)
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


async def test_idle_connections_are_swept_only_while_there_are_connections(monkeypatch):
    monkeypatch.setattr("odradek.broker.network.processor.SWEEP_INTERVAL_S", 0.001)
    scene = Scene(idle_s_max=0)
    client = scene.connect("quiet")
    assert await client.is_ended()
    assert scene.ended == ["quiet"]
    assert scene.processor._sweep_timer is None
    client.close()


async def test_negative_idle_time_is_unlimited():
    scene = Scene(idle_s_max=-1)
    client = scene.connect("quiet")
    scene.now += 1e9
    scene.processor.close_idle()
    assert scene.ended == []
    client.close()
    scene.processor.close_all()


async def test_reset_connections_are_closed_even_if_the_loop_reports_nothing():
    scene = Scene()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client_sockets = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        for number in range(3):
            accepted, _ = listening.accept()
            accepted.setblocking(False)
            scene.processor.accept(accepted, RequestContext(str(number), "host", "PLAINTEXT"))
            scene.processor._connections[str(number)]._watcher.stop_reading()
    dead, half_closed, alive = map(Client, client_sockets)
    dead.socket.sendall(b"unread")
    dead.reset()
    half_closed.end_input()
    scene.processor.close_dead()
    assert scene.ended == ["0"]
    half_closed.close(), alive.close()
    scene.processor.close_all()


async def test_last_used_time_of_each_connection_is_known():
    scene = Scene()
    assert scene.processor.connections() == []
    clients = [scene.connect(name) for name in "abc"]
    for client in clients:
        scene.now += 1
        await client.ask(b"x")
    scene.now += 1
    await clients[0].ask(b"x")
    connections = sorted(
        scene.processor.connections(), key=lambda connection: connection.last_used_at
    )
    assert [connection.context.connection_id for connection in connections] == ["b", "c", "a"]
    scene.processor.close("b", "the test says so")
    scene.processor.close("b", "it is gone already")
    assert scene.ended == ["b"]
    for client in clients:
        client.close()
    scene.processor.close_all()
    assert sorted(scene.ended) == ["a", "b", "c"]


async def test_responses_to_closed_connections_are_dropped():
    scene = Scene()
    scene.processor.deliver("nobody", [b"x"])
    scene.processor.resume("nobody")


async def test_connection_accepted_after_drain_is_closed():
    scene = Scene()
    await scene.processor.drain()
    client = scene.connect("late")
    assert await client.is_ended()
    client.close()
