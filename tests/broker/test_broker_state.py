"""The states of a broker from start to shutdown, and their numbers."""

import asyncio
import socket

import pytest

from odradek.broker import server
from odradek.broker.broker_state import BrokerState
from odradek.broker.network.listener import ListenerError
from odradek.broker.server import KafkaServer, NoLogDirectory
from odradek.broker.settings.sources import load
from odradek.protocol.api_keys import ApiKey
from tests.support.loops import at_end
from tests.support.wire_client import WireClient, call

NOT_RUNNING, STARTING, RECOVERING, RUNNING, PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN = BrokerState


class StateRecordingServer(KafkaServer):
    """Records every state of the server."""

    def __init__(self, data_dir, *overrides):
        self.states = []
        properties = [f"log.dirs={data_dir}", "listeners=PLAINTEXT://127.0.0.1:0", *overrides]
        super().__init__(load(file=None, environment={}, overrides=properties))
        at_end(self.stop)

    @property
    def state(self):
        return self.states[-1]

    @state.setter
    def state(self, state):
        self.states.append(state)

    @property
    def address(self):
        (endpoint,) = self.endpoints
        return f"{endpoint.host}:{endpoint.port}"


def test_states_have_the_numbers_of_kafka():
    assert {state.name: int(state) for state in BrokerState} == {
        "NOT_RUNNING": 0,
        "STARTING": 1,
        "RECOVERING": 2,
        "RUNNING": 3,
        "PENDING_CONTROLLED_SHUTDOWN": 6,
        "SHUTTING_DOWN": 7,
    }


async def test_broker_passes_through_the_states_in_order(tmp_path):
    broker = StateRecordingServer(tmp_path / "logs")
    assert broker.states == [NOT_RUNNING]
    await broker.start()
    assert broker.states == [NOT_RUNNING, STARTING, RECOVERING, RUNNING]
    await broker.stop()
    assert broker.states[4:] == [PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN, NOT_RUNNING]


async def test_broker_is_recovering_while_its_logs_are_loaded(tmp_path, monkeypatch):
    seen = []
    load_logs = server.LogManager.load

    def load_and_record(*args, **kwargs):
        seen.append(broker.state)
        return load_logs(*args, **kwargs)

    monkeypatch.setattr(server.LogManager, "load", load_and_record)
    broker = StateRecordingServer(tmp_path / "logs")
    await broker.start()
    assert seen == [RECOVERING]


async def test_requests_are_served_only_while_the_broker_is_running(tmp_path, monkeypatch):
    seen = []
    open_gate = server.StartupGate.open

    def open_and_record(gate):
        seen.append(broker.state)
        return open_gate(gate)

    monkeypatch.setattr(server.StartupGate, "open", open_and_record)
    broker = StateRecordingServer(tmp_path / "logs")
    await broker.start()
    assert RUNNING not in seen
    assert broker.state is RUNNING
    response = await asyncio.to_thread(call, broker.address, ApiKey.METADATA, 12, topics=[])
    assert [broker_metadata.node_id for broker_metadata in response.brokers] == [
        response.controller_id
    ]
    with WireClient(broker.address) as client:
        await broker.stop()
        assert client.is_hung_up()
    assert broker.state is NOT_RUNNING


async def test_controlled_shutdown_precedes_shutdown(tmp_path, monkeypatch):
    seen = []
    controlled_shutdown = server.KafkaServer._controlled_shutdown

    async def record_and_shut_down(broker_server):
        seen.append(broker_server.state)
        await controlled_shutdown(broker_server)
        seen.append(broker_server.state)

    monkeypatch.setattr(server.KafkaServer, "_controlled_shutdown", record_and_shut_down)
    broker = StateRecordingServer(tmp_path / "logs")
    await broker.start()
    await broker.stop()
    assert seen == [PENDING_CONTROLLED_SHUTDOWN] * 2


async def test_broker_that_cannot_bind_its_port_never_runs(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = StateRecordingServer(tmp_path / "logs", f"listeners=PLAINTEXT://127.0.0.1:{port}")
        with pytest.raises(ListenerError):
            await broker.start()
    assert broker.states == [NOT_RUNNING, STARTING, RECOVERING, SHUTTING_DOWN, NOT_RUNNING]


async def test_broker_without_log_directory_shuts_down_before_recovery(tmp_path):
    (tmp_path / "file").touch()
    broker = StateRecordingServer(tmp_path / "file")
    with pytest.raises(NoLogDirectory):
        await broker.start()
    assert broker.states == [NOT_RUNNING, STARTING, SHUTTING_DOWN, NOT_RUNNING]


async def test_broker_whose_last_log_directory_fails_during_recovery_never_runs(tmp_path):
    (tmp_path / "logs" / "events-0" / f"{0:020}.log").mkdir(parents=True)
    broker = StateRecordingServer(tmp_path / "logs")
    with pytest.raises(NoLogDirectory):
        await broker.start()
    assert broker.states == [NOT_RUNNING, STARTING, RECOVERING, SHUTTING_DOWN, NOT_RUNNING]


async def test_start_cancelled_during_recovery_ends_in_not_running(tmp_path, monkeypatch):
    broker = StateRecordingServer(tmp_path / "logs")
    loop, load_logs = asyncio.get_running_loop(), server.LogManager.load

    def load_and_be_cancelled(*args, **kwargs):
        loop.call_soon_threadsafe(starting.cancel)
        return load_logs(*args, **kwargs)

    monkeypatch.setattr(server.LogManager, "load", load_and_be_cancelled)
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(broker.start())
    assert starting.cancelled()
    assert broker.states == [NOT_RUNNING, STARTING, RECOVERING, SHUTTING_DOWN, NOT_RUNNING]


async def test_broker_without_controlled_shutdown_shuts_down_at_once(tmp_path):
    broker = StateRecordingServer(tmp_path / "logs", "controlled.shutdown.enable=false")
    await broker.start()
    await broker.stop()
    assert broker.states[-3:] == [RUNNING, SHUTTING_DOWN, NOT_RUNNING]
