"""Requests to another broker."""

import asyncio
import socket
from contextlib import suppress

import pytest
import uvloop

from odradek.broker.network.client import BrokerClient
from odradek.broker.network.client_connection import ClientConnection
from odradek.broker.network.outgoing import Outgoing, Tally
from odradek.broker.network.own_connections import OwnConnections
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import decode_request_header, response_frame
from tests.support.loops import at_end
from tests.support.network_scene import ABRUPTLY, until

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Broker:
    """Answers as it is told to; ``seen`` are the correlation ids of what it was asked."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.seen = []
        self.connections = 0
        self.outgoing = Outgoing()
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        tally = self.outgoing.tally("questions")
        client = BrokerClient(host, port, client_id="1", timeout_s=30, tally=tally)

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
            while content := await self._answer_to(reader):
                writer.write(content)
        writer.close()

    async def _answer_to(self, reader):
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, _ = decode_request_header(await reader.readexactly(size))
        self.seen.append(header.correlation_id)
        answer = self._answers.pop(0) if self._answers else right
        return answer(header.correlation_id)


class Transport:
    is_aborted = False

    def write(self, content):
        pass

    def abort(self):
        self.is_aborted = True


def right(correlation_id):
    response = HeartbeatResponse(error_code=0)
    return b"".join(response_frame(ApiKey.HEARTBEAT, 4, correlation_id, response))


def to_another(correlation_id):
    return right(correlation_id + 1)


def nothing(correlation_id):
    return None


def cut_short(correlation_id):
    whole = right(correlation_id)
    return (len(whole) - 6).to_bytes(4, "big") + whole[4:-2]


async def test_requests_go_one_after_the_other_over_one_connection():
    broker = Broker()
    client = await broker.start()
    answers = await asyncio.gather(*(client.send(REQUEST, version=4) for _ in range(5)))
    assert answers == [HeartbeatResponse(error_code=0)] * 5
    assert broker.seen == list(range(5))
    assert broker.connections == 1


@pytest.mark.parametrize(
    ("answer", "failure"),
    [(to_another, DecodeError), (cut_short, DecodeError), (nothing, ConnectionResetError)],
)
async def test_after_a_failure_the_connection_is_made_anew(answer, failure):
    broker = Broker(answer)
    client = await broker.start()
    with pytest.raises(failure):
        await client.send(REQUEST, version=4)
    assert await client.send(REQUEST, version=4) == HeartbeatResponse(error_code=0)
    assert broker.connections == 2


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_connection_that_was_closed_while_idle_is_made_anew_and_nobody_notices(is_reset):
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    broker.hang_up(is_reset=is_reset)
    await until(lambda: client._connection.is_lost)
    assert await client.send(REQUEST, version=4) == HeartbeatResponse(error_code=0)
    assert broker.connections == 2


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 7])
async def test_an_answer_may_come_in_pieces(piece):
    connection, transport = ClientConnection("it", Tally()), Transport()
    connection.connection_made(transport)
    answer, content = connection.ask(b"?"), right(7)
    for position in range(0, len(content), piece):
        assert not answer.done()
        connection.data_received(content[position : position + piece])
    assert await answer == content[4:]
    assert not connection.is_lost


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xff\xff\xff", "it sent 4 bytes as an answer of -1"),
        (b"\0\0\0\1ab", "it sent 6 bytes as an answer of 1"),
    ],
)
async def test_what_is_no_answer_ends_the_connection(content, why):
    connection, transport = ClientConnection("it", Tally()), Transport()
    connection.connection_made(transport)
    answer = connection.ask(b"?")
    connection.data_received(content)
    with pytest.raises(DecodeError, match=why):
        await answer
    assert (connection.is_lost, transport.is_aborted) == (True, True)


async def test_what_nobody_asked_for_ends_the_connection():
    connection, transport = ClientConnection("it", Tally()), Transport()
    connection.connection_made(transport)
    connection.data_received(b"\0")
    assert (connection.is_lost, transport.is_aborted) == (True, True)


async def test_whoever_waits_for_an_answer_is_told_when_the_client_is_closed():
    asked = asyncio.Event()

    def never(correlation_id):
        asked.set()
        return b"\0"

    client = await Broker(never).start()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(refused(client))
        await asked.wait()
        client.close()
    assert waiting.result() is ConnectionAbortedError


async def test_that_nobody_answers_in_time_is_said(monkeypatch):
    client = await Broker(lambda _: b"\0").start()
    monkeypatch.setattr(client, "_timeout_s", 0.05)
    with pytest.raises(TimeoutError, match="does not answer in time"):
        await client.send(REQUEST, version=4)


async def test_what_the_other_broker_has_closed_is_closed_here_though_nobody_uses_it():
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    own_end = client._connection._transport.get_extra_info("socket")
    assert (broker.outgoing.counts(), own_end.fileno() >= 0) == ({"questions": 1}, True)
    broker.hang_up(is_reset=False)
    await until(lambda: not broker.outgoing.counts())
    await until(lambda: own_end.fileno() < 0)


async def test_a_client_that_is_closed_leaves_no_connection():
    broker = Broker()
    client = await broker.start()
    await client.send(REQUEST, version=4)
    client.close()
    await until(lambda: not broker.outgoing.counts())


async def test_a_broker_that_is_not_there_is_an_os_error():
    broker = Broker()
    client = await broker.start()
    await broker._close()
    with pytest.raises(ConnectionRefusedError):
        await client.send(REQUEST, version=4)


@pytest.mark.parametrize("own", [None, OwnConnections(lambda: None)])
async def test_a_host_that_is_no_name_is_an_os_error(own):
    client = BrokerClient("my..host", 9092, client_id="1", timeout_s=30, own=own)
    with pytest.raises(OSError, match=r"my\.\.host is no name of a host"):
        await client.send(REQUEST, version=4)


async def test_a_client_that_was_closed_sends_nothing_more():
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


async def test_whoever_still_waits_for_a_connection_is_told_when_the_client_is_closed():
    own = NeverConnected()
    client = BrokerClient("127.0.0.1", 9092, client_id="c", timeout_s=3600, own=own)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(refused(client)) for _ in range(2)]
        await own.is_connecting.wait()
        client.close()
    assert [task.result() for task in waiting] == [TimeoutError, ConnectionAbortedError]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_connection_that_is_given_up_as_it_is_made_is_not_counted(monkeypatch, run):
    """Of which uvloop does not say that it is lost."""
    tally, made = Tally(), ClientConnection.connection_made

    async def close_as_it_is_made():
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        client = BrokerClient(host, port, client_id="1", timeout_s=30, tally=tally)

        def connection_made(connection, transport):
            made(connection, transport)
            assert tally.count == 1
            client.close()

        monkeypatch.setattr(ClientConnection, "connection_made", connection_made)
        with pytest.raises(TimeoutError):
            await client.send(REQUEST, version=4)
        server.close()

    run(close_as_it_is_made())
    assert tally.count == 0


async def test_that_nobody_lets_it_in_is_said():
    own = NeverConnected()
    client = BrokerClient("127.0.0.1", 9092, client_id="c", timeout_s=0, own=own)
    with pytest.raises(TimeoutError, match="does not answer in time"):
        await client.send(REQUEST, version=4)


async def refused(client):
    try:
        await client.send(REQUEST, version=4)
    except OSError as refusal:
        return type(refusal)
