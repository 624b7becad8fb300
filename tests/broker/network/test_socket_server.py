"""The socket server seen by clients, with one processor on the core loop or two on threads."""

import asyncio
import logging
import os
import socket
import threading

import pytest

from odradek.broker.network.connection_quotas import resolve_overrides
from odradek.broker.network.listener import ListenerError
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.request import Disconnect
from odradek.broker.settings.network import NetworkSettings
from odradek.protocol.file_region import FileRegion
from tests.support.network_scene import LOOPBACK, Client, Held, port_of, serving, until
from tests.support.scripted_connection import echo, framed

TWO_LISTENERS = "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0"
PLAIN = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"

both = pytest.mark.parametrize("threads", [1, 2])


async def echo_later(frame):
    response = framed(bytes(frame))
    await asyncio.sleep(0)
    return [response]


def mixed(frame, context):
    """Responds at once, later or never, by the first byte of the frame."""
    if frame[:1] == b"l":
        return echo_later(frame)
    return None if frame[:1] == b"n" else echo(frame, context)


@both
async def test_pipelined_requests_are_answered_in_order(threads):
    server = await serving(mixed, num_network_threads=threads)
    client = await Client.connect(server)
    payloads = [b"%c%d" % (kind, number) for number in range(60) for kind in b"sln"]
    await client.send(b"".join(map(framed, payloads)))
    expected = [payload for payload in payloads if payload[:1] != b"n"]
    assert [await client.receive() for _ in expected] == expected


@both
async def test_delayed_response_does_not_delay_other_connections(threads):
    held = Held()
    handler_for = {b"hold": held}.get
    server = await serving(
        lambda frame, context: handler_for(bytes(frame), echo)(frame, context),
        num_network_threads=threads,
    )
    delayed, other = await Client.connect(server), await Client.connect(server)
    await delayed.send(framed(b"hold"))
    await held.wait_for(1)
    assert await other.ask(b"hello") == b"hello"
    held.answer()
    assert await delayed.receive() == b"held"


@both
async def test_large_frames_arrive_whole(threads):
    server = await serving(num_network_threads=threads)
    client = await Client.connect(server)
    payload = os.urandom(3_000_000)
    sending = asyncio.gather(client.send(framed(payload) + framed(b"after")), client.receive())
    assert (await sending)[1] == payload
    assert await client.receive() == b"after"


@both
async def test_client_that_ends_its_output_gets_its_responses_and_then_the_end(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"1"))
    await held.wait_for(1)
    client.end_input()
    held.answer()
    assert await client.receive() == b"held"
    assert await client.is_ended()
    await until(lambda: len(server) == 0)


@both
async def test_reset_in_any_state_frees_the_connection(threads, tmp_path):
    held = Held()
    size = 8 << 20
    (tmp_path / "segment").write_bytes(bytes(size))
    handler_for = {b"stuck": lambda *_: [bytes(4), FileRegion(file.fileno(), 0, size)]}.get
    with (tmp_path / "segment").open("rb") as file:
        server = await serving(
            lambda frame, context: handler_for(bytes(frame), held if frame else echo)(
                frame, context
            ),
            num_network_threads=threads,
        )
        for stream in (
            b"",
            b"\0\0",
            framed(b"within a frame")[:9],
            framed(b"wait"),
            framed(b"stuck"),
        ):
            client = await Client.connect(server)
            await client.send(stream)
            if stream == framed(b"wait"):
                await held.wait_for(1)
            if stream == framed(b"stuck"):
                assert await client._exactly(4) == bytes(4)
            await until(lambda: len(server) == 1)
            client.reset()
            await until(lambda: len(server) == 0)
        held.answer()
        assert await (await Client.connect(server)).ask(b"") == b""


@both
async def test_slow_reader_of_a_large_region_delays_no_other(threads, tmp_path):
    content = os.urandom(12 << 20)
    (tmp_path / "segment").write_bytes(content)
    with (tmp_path / "segment").open("rb") as file:
        parts = [len(content).to_bytes(4), FileRegion(file.fileno(), 0, len(content))]
        server = await serving(
            lambda frame, context: parts if frame == b"fetch" else echo(frame, context),
            num_network_threads=threads,
        )
        slow = await Client.connect(server, receive_buffer_bytes=4096)
        other = await Client.connect(server)
        await slow.send(framed(b"fetch") + framed(b"next"))
        for number in range(50):
            assert await other.ask(b"%d" % number) == b"%d" % number
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert await slow.receive() == content
        assert await slow.receive() == b"next"


@both
async def test_garbage_closes_its_connection_only(threads, caplog):
    server = await serving(num_network_threads=threads, socket_request_max_bytes=1000)
    healthy = await Client.connect(server)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x16\x03\x01\x02\x00\x01"):
        hostile = await Client.connect(server)
        await hostile.send(garbage)
        assert await hostile.is_ended()
        assert await healthy.ask(b"hello") == b"hello"
    assert (
        len(
            [
                record
                for record in caplog.records
                if "because of error: invalid receive" in record.message
            ]
        )
        == 3
    )


@both
async def test_exception_of_a_handler_closes_one_connection(threads, caplog):
    async def fail_later():
        raise KeyError("later")

    def handle(frame, context):
        if frame == b"later":
            return fail_later()
        if frame == b"refused":
            raise Disconnect("not that")
        return echo(frame, context) if frame else 1 / len(frame)

    server = await serving(handle, num_network_threads=threads)
    healthy = await Client.connect(server)
    for request in (b"later", b"refused", b""):
        client = await Client.connect(server)
        await client.send(framed(request))
        assert await client.is_ended()
    assert await healthy.ask(b"hello") == b"hello"
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, True]


@both
async def test_stop_sends_responses_and_accepts_nothing_new(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads)
    port = port_of(server)
    # The first and the third connection have the same processor.
    busy, _, idle = [await Client.connect(server) for _ in range(3)]
    await busy.send(framed(b"1") + framed(b"2"))
    await held.wait_for(1)
    stopping = asyncio.gather(server.stop(timeout_s=30), return_exceptions=True)
    assert await idle.is_ended()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert not stopping.done()
    held.answer()
    assert await busy.receive() == b"held"
    assert await busy.is_ended()
    assert await stopping == [None]
    assert len(held.asked) == 1
    assert len(server) == 0


@both
async def test_stop_ends_after_its_timeout(threads, caplog):
    held = Held()
    server = await serving(held, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"1"))
    await held.wait_for(1)
    await server.stop(timeout_s=0.01)
    assert held.asked[0].cancelled()
    assert await client.is_ended()
    assert "Shutdown timed out with 1 connection(s) awaiting responses" in caplog.text


@both
async def test_requests_are_handled_on_the_core_loop_with_their_context(threads):
    requests = []

    def handle(frame, context):
        requests.append((asyncio.get_running_loop(), context))
        return echo(frame, context)

    server = await serving(handle, num_network_threads=threads)
    client = await Client.connect(server)
    await client.ask(b"x")
    loop, context = requests[0]
    assert loop is asyncio.get_running_loop()
    remote = client.socket.getsockname()[1]
    assert context.connection_id == f"127.0.0.1:{port_of(server)}-127.0.0.1:{remote}-0"
    assert (context.client_host, context.listener) == ("127.0.0.1", "PLAINTEXT")
    assert not context.is_control_plane


@both
async def test_control_plane_requests_are_marked(threads):
    server = await serving(
        lambda frame, context: [framed(str(context.is_control_plane).encode())],
        listeners=f"{TWO_LISTENERS},CONTROLLER://127.0.0.1:0",
        listener_security_protocol_map=PLAIN,
        inter_broker_listener_name="brokers",
        control_plane_listener_name="controller",
        num_network_threads=threads,
    )
    assert await (await Client.connect(server, "CONTROLLER")).ask(b"?") == b"True"
    assert await (await Client.connect(server, "CLIENTS")).ask(b"?") == b"False"


@both
async def test_memory_bound_limits_requests_and_every_connection_is_served(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads, queued_max_request_bytes=2)
    clients = [await Client.connect(server) for _ in range(6)]
    for client in clients:
        await client.send(framed(b"12345"))
    for number in range(6):
        await held.wait_for(number + 1)
        assert len(held.asked) - number <= threads
        held.answer(number)
    assert [await client.receive() for client in clients] == [b"held"] * 6


async def test_connection_beyond_max_connections_per_ip_is_closed(caplog):
    server = await serving(max_connections_per_ip=1)
    first = await Client.connect(server)
    assert await first.ask(b"x") == b"x"
    assert await (await Client.connect(server)).is_ended()
    assert await first.ask(b"x") == b"x"
    assert "Rejected connection from 127.0.0.1, too many connections" in caplog.text
    server.apply(
        NetworkSettings(listeners=LOOPBACK, max_connections_per_ip_overrides="localhost:2")
    )
    assert await (await Client.connect(server)).ask(b"x") == b"x"


async def test_override_hosts_are_resolved_on_a_thread_and_only_if_they_changed(monkeypatch):
    threads = []

    def record_and_resolve(overrides):
        threads.append(threading.current_thread())
        return resolve_overrides(overrides)

    monkeypatch.setattr(
        "odradek.broker.network.socket_server.resolve_overrides", record_and_resolve
    )
    server = await serving(max_connections_per_ip=1)
    first = await Client.connect(server)
    assert await first.ask(b"x") == b"x"
    settings = {"listeners": LOOPBACK, "max_connections_per_ip": 1}
    server.apply(NetworkSettings(**settings, max_connections=9))
    assert threads == []
    settings["max_connections_per_ip_overrides"] = "localhost:2"
    server.apply(NetworkSettings(**settings))
    server.apply(NetworkSettings(**settings, max_connections=9))
    await until(lambda: server._connection_quotas._limits_by_address)
    assert await (await Client.connect(server)).ask(b"x") == b"x"
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_raised_limit_accepts_waiting_connections():
    server = await serving(max_connections=0)
    client = await Client.connect(server)
    await client.send(framed(b"x"))
    server.apply(NetworkSettings(listeners=LOOPBACK, max_connections=1))
    assert await client.receive() == b"x"


async def test_connections_above_the_rate_are_delayed():
    server = await serving(max_connection_creation_rate=10)
    started_s = asyncio.get_running_loop().time()
    clients = [await Client.connect(server) for _ in range(12)]
    assert [await client.ask(b"x") for client in clients] == [b"x"] * 12
    assert asyncio.get_running_loop().time() - started_s >= 0.19


async def test_connections_before_accepting_wait_in_the_backlog():
    settings = NetworkSettings(listeners=LOOPBACK)
    server = SocketServer(settings, echo, start_task=None)
    server.open()
    client = await Client.connect(server)
    await client.send(framed(b"early"))
    server.start_accepting({"OTHER"})
    assert len(server) == 0
    server.start_accepting()
    assert await client.receive() == b"early"
    await server.stop(timeout_s=1)


async def test_port_in_use_is_one_clear_error_and_leaves_nothing_open():
    server = await serving()
    used_port = port_of(server)
    listeners = f"CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:{used_port}"
    settings = NetworkSettings(
        listeners=listeners,
        listener_security_protocol_map=PLAIN,
        inter_broker_listener_name="BROKERS",
    )
    second = SocketServer(settings, echo, start_task=None)
    with pytest.raises(ListenerError) as error:
        second.open()
    message = f"failed to bind to BROKERS://127.0.0.1:{used_port}: Address already in use"
    assert str(error.value) == message
    assert second.endpoints == ()


async def test_server_that_never_accepted_can_be_stopped():
    server = SocketServer(NetworkSettings(listeners=LOOPBACK), echo, start_task=None)
    server.open()
    await server.stop(timeout_s=1)
    await server.stop(timeout_s=1)


async def test_accepting_is_logged_once_for_each_listener(caplog):
    caplog.set_level(logging.INFO)
    server = await serving()
    server.start_accepting()
    assert [record.message for record in caplog.records] == [
        f"Awaiting socket connections on PLAINTEXT://127.0.0.1:{port_of(server)}"
    ]


async def test_queue_slot_of_a_reset_connection_is_freed():
    server = await serving(num_network_threads=2, queued_max_requests=1)
    for _ in range(20):
        resetting = [await Client.connect(server) for _ in range(8)]
        staying = [await Client.connect(server) for _ in range(2)]
        for client in (*resetting, *staying):
            await client.send(framed(b"x"))
        for client in resetting:
            client.reset()
        assert [await client.receive() for client in staying] == [b"x"] * 2
