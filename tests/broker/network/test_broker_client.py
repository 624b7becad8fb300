"""Requests to another broker."""

import asyncio
import socket
from contextlib import suppress

import pytest
import uvloop

from odradek.broker.network.broker_client import BrokerClient
from odradek.broker.network.client_connection import ClientConnection
from odradek.broker.network.local_connections import LocalConnections
from odradek.broker.network.outgoing_connections import ConnectionCounter, OutgoingConnections
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import decode_request_header, response_frame
from tests.support.loops import at_end
from tests.support.network_scene import ABRUPTLY, until

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Broker:
    """A broker with scripted responses; ``seen`` holds the correlation ids of its requests."""

    def __init__(self, *responses):
        self._responses = list(responses)
        self.seen = []
        self.connections = 0
        self.outgoing = OutgoingConnections()
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        counter = self.outgoing.counter("questions")
        client = BrokerClient(host, port, client_id="1", timeout_s=30, counter=counter)

        async def close():
            client.close()

        at_end(self._close)
        at_end(close)
        return client

    async def _close(self):
        self._server.close()
        await self._server.wait_closed()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def hang_up(self, *, is_reset):
        if is_reset:
            self._writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY
            )
        self._writer.transport.abort()

    async def _serve(self, reader, writer):
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        self._writer = writer
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while content := await self._response_to(reader):
                writer.write(content)
        writer.close()

    async def _response_to(self, reader):
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, _ = decode_request_header(await reader.readexactly(size))
        self.seen.append(header.correlation_id)
        build_response = self._responses.pop(0) if self._responses else valid_response
        return build_response(header.correlation_id)


class Transport:
    is_aborted = False

    def write(self, content):
        pass

    def abort(self):
        self.is_aborted = True


def valid_response(correlation_id):
    response = HeartbeatResponse(error_code=0)
    return b"".join(response_frame(ApiKey.HEARTBEAT, 4, correlation_id, response))


def other_correlation_id(correlation_id):
    return valid_response(correlation_id + 1)


def no_response(correlation_id):
    return None


def truncated(correlation_id):
    whole = valid_response(correlation_id)
    return (len(whole) - 6).to_bytes(4, "big") + whole[4:-2]


async def test_requests_go_one_after_the_other_over_one_connection():
    broker = Broker()
    client = await broker.start()
    responses = await asyncio.gather(*(client.send(REQUEST, version=4) for _ in range(5)))
    assert responses == [HeartbeatResponse(error_code=0)] * 5
    assert broker.seen == list(range(5))
    assert broker.connections == 1


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (other_correlation_id, DecodeError),
        (truncated, DecodeError),
        (no_response, ConnectionResetError),
    ],
)
async def test_client_reconnects_after_an_error(response, error):
    broker = Broker(response)
    client = await broker.start()
    with pytest.raises(error):
        await client.send(REQUEST, version=4)
    assert await client.send(REQUEST, version=4) == HeartbeatResponse(error_code=0)
    assert broker.connections == 2


@pytest.mark.parametrize("is_reset", [False, True])
async def test_client_reconnects_after_its_idle_connection_was_closed(is_reset):
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    broker.hang_up(is_reset=is_reset)
    await until(lambda: client._connection.is_lost)
    assert await client.send(REQUEST, version=4) == HeartbeatResponse(error_code=0)
    assert broker.connections == 2


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 7])
async def test_response_may_arrive_in_pieces(piece):
    connection, transport = ClientConnection("it", ConnectionCounter()), Transport()
    connection.connection_made(transport)
    response, content = connection.send(b"?"), valid_response(7)
    for position in range(0, len(content), piece):
        assert not response.done()
        connection.data_received(content[position : position + piece])
    assert await response == content[4:]
    assert not connection.is_lost


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xff\xff\xff", "it sent 4 bytes for a response of -1"),
        (b"\0\0\0\1ab", "it sent 6 bytes for a response of 1"),
    ],
)
async def test_invalid_response_closes_the_connection(content, reason):
    connection, transport = ClientConnection("it", ConnectionCounter()), Transport()
    connection.connection_made(transport)
    response = connection.send(b"?")
    connection.data_received(content)
    with pytest.raises(DecodeError, match=reason):
        await response
    assert (connection.is_lost, transport.is_aborted) == (True, True)


async def test_unexpected_bytes_close_the_connection():
    connection, transport = ClientConnection("it", ConnectionCounter()), Transport()
    connection.connection_made(transport)
    connection.data_received(b"\0")
    assert (connection.is_lost, transport.is_aborted) == (True, True)


async def test_close_of_the_client_fails_a_waiting_request():
    received = asyncio.Event()

    def never(correlation_id):
        received.set()
        return b"\0"

    client = await Broker(never).start()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(error_type(client))
        await received.wait()
        client.close()
    assert waiting.result() is ConnectionAbortedError


async def test_request_without_response_times_out(monkeypatch):
    client = await Broker(lambda _: b"\0").start()
    monkeypatch.setattr(client, "_timeout_s", 0.05)
    with pytest.raises(TimeoutError, match="does not answer in time"):
        await client.send(REQUEST, version=4)


async def test_connection_closed_by_the_broker_is_closed_while_idle():
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    client_socket = client._connection._transport.get_extra_info("socket")
    assert (broker.outgoing.counts(), client_socket.fileno() >= 0) == ({"questions": 1}, True)
    broker.hang_up(is_reset=False)
    await until(lambda: not broker.outgoing.counts())
    await until(lambda: client_socket.fileno() < 0)


async def test_close_of_the_client_closes_its_connection():
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    client.close()
    await until(lambda: not broker.outgoing.counts())


async def test_connection_refused_is_an_os_error():
    broker = Broker()
    client = await broker.start()
    await broker._close()
    with pytest.raises(ConnectionRefusedError):
        await client.send(REQUEST, version=4)


@pytest.mark.parametrize("local_connections", [None, LocalConnections(lambda: None)])
async def test_invalid_host_name_is_an_os_error(local_connections):
    client = BrokerClient(
        "my..host", 9092, client_id="1", timeout_s=30, local_connections=local_connections
    )
    with pytest.raises(OSError, match=r"my\.\.host is not a valid host name"):
        await client.send(REQUEST, version=4)


async def test_closed_client_rejects_requests():
    client = await Broker().start()
    client.close()
    with pytest.raises(ConnectionAbortedError):
        await client.send(REQUEST, version=4)


class NeverConnected:
    def __init__(self):
        self.is_connecting = asyncio.Event()

    async def connect(self, host, port):
        self.is_connecting.set()
        await asyncio.Event().wait()


async def test_close_of_the_client_fails_requests_that_wait_for_a_connection():
    never_connected = NeverConnected()
    client = BrokerClient(
        "127.0.0.1", 9092, client_id="c", timeout_s=3600, local_connections=never_connected
    )
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(error_type(client)) for _ in range(2)]
        await never_connected.is_connecting.wait()
        client.close()
    assert [task.result() for task in waiting] == [TimeoutError, ConnectionAbortedError]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_connection_closed_while_it_is_made_is_not_counted(monkeypatch, run):
    """uvloop does not call connection_lost for such a connection."""
    counter, original_connection_made = ConnectionCounter(), ClientConnection.connection_made

    async def close_during_connect():
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        client = BrokerClient(host, port, client_id="1", timeout_s=30, counter=counter)

        def connection_made(connection, transport):
            original_connection_made(connection, transport)
            assert counter.count == 1
            client.close()

        monkeypatch.setattr(ClientConnection, "connection_made", connection_made)
        with pytest.raises(TimeoutError):
            await client.send(REQUEST, version=4)
        server.close()

    run(close_during_connect())
    assert counter.count == 0


async def test_connect_without_response_times_out():
    never_connected = NeverConnected()
    client = BrokerClient(
        "127.0.0.1", 9092, client_id="c", timeout_s=0, local_connections=never_connected
    )
    with pytest.raises(TimeoutError, match="does not answer in time"):
        await client.send(REQUEST, version=4)


async def error_type(client):
    try:
        await client.send(REQUEST, version=4)
    except OSError as error:
        return type(error)
