"""A broker with a listener for each kind of client, whose processors run on their own threads."""

import re
import struct
import threading
from contextlib import ExitStack
from socket import MSG_PEEK

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.batches import batch_of
from tests.support.many_listeners import (
    BROKERS,
    CONTROL,
    LISTENERS,
    OUTSIDE,
    THREADS,
    ManyListeners,
    broker,
)
from tests.support.minimal_requests import CONTROLLER_EPOCH
from tests.support.network_scene import serving
from tests.support.partition_client import (
    FETCH_BYTES_MAX,
    LATEST,
    TIMEOUT_MS,
    PartitionClient,
    create_topic,
)
from tests.support.wire_client import TIMEOUT_S, WireClient, call

__all__ = ["broker"]

#: How long to wait for a response that is not expected.
SILENCE_S = 0.2
ATTEMPTS = 50
CONNECTIONS = 2 * THREADS


def accepted_clients(stack, address, count=CONNECTIONS):
    """Returns connections that are accepted, each on the next thread."""
    clients = [stack.enter_context(WireClient(address)) for _ in range(count)]
    assert all(map(is_answered, clients))
    return clients


def is_answered(client):
    """Whether a response arrives within a while."""
    client.send(ApiKey.API_VERSIONS, 0)
    client.socket.settimeout(SILENCE_S * 10)
    try:
        client.answer(ApiKey.API_VERSIONS, 0)
    except TimeoutError:
        return False
    finally:
        client.socket.settimeout(TIMEOUT_S)
    return True


def fetch_fields(topic, *, max_wait_ms=0):
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": FETCH_BYTES_MAX}
    topics = [{"topic": topic, "partitions": [partition]}]
    limits = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": FETCH_BYTES_MAX}
    return {"session_epoch": -1, "topics": topics, **limits}


def records_in(response):
    return bytes(response.responses[0].partitions[0].records or b"")


def accepts_controller_requests(address):
    """Whether the broker accepts a request that only a controller sends."""
    (node,) = call(address, ApiKey.METADATA, 9, topics=[]).brokers
    values = {"controller_id": node.node_id, "controller_epoch": CONTROLLER_EPOCH}
    return call(address, ApiKey.LEADER_AND_ISR, 4, **values).error_code == 0


# Listeners


@pytest.mark.parametrize("listener", LISTENERS)
def test_advertised_address_is_that_of_the_listener_of_the_request(broker, listener):
    address = broker.address_of(listener)
    for version in range(13):
        (node,) = call(address, ApiKey.METADATA, version, topics=[]).brokers
        assert (node.host, node.port) == broker.advertised[listener]
    (node,) = call(address, ApiKey.DESCRIBE_CLUSTER, 0).brokers
    assert (node.host, node.port) == broker.advertised[listener]


def test_records_written_through_one_listener_are_read_through_all(broker):
    values = [name.encode() * 20_000 for name in LISTENERS]
    create_topic(broker.address, "seen-by-all")
    for listener, value in zip(LISTENERS, values, strict=True):
        with PartitionClient(broker.address_of(listener), "seen-by-all") as client:
            assert client.produce(batch_of(value)).error_code == 0
    read = {
        records_in(
            call(broker.address_of(listener_name), ApiKey.FETCH, 11, **fetch_fields("seen-by-all"))
        )
        for listener_name in LISTENERS
    }
    assert len(read) == 1
    assert all(value in read.copy().pop() for value in values)


def test_ready_file_names_every_address(broker):
    addresses = [f"{host}:{port}" for host, port in broker.advertised.values()]
    ready_file = broker.data_dir.with_name(broker.data_dir.name + ".ready")
    assert ready_file.read_text() == ", ".join(addresses) + "\n"


async def test_each_listener_has_its_threads_and_the_control_plane_has_one():
    names = {"CLIENTS", "BROKERS", "CONTROL"}
    await serving(
        listeners=",".join(f"{name}://127.0.0.1:0" for name in sorted(names)),
        listener_security_protocol_map=",".join(f"{name}:PLAINTEXT" for name in names),
        inter_broker_listener_name="BROKERS",
        control_plane_listener_name="CONTROL",
        num_network_threads=2,
    )
    running = [
        thread.name for thread in threading.enumerate() if thread.name.startswith("network-")
    ]
    assert sorted(running) == [
        "network-BROKERS-0",
        "network-BROKERS-1",
        "network-CLIENTS-0",
        "network-CLIENTS-1",
        "network-CONTROL-0",
    ]


def test_controller_uses_the_control_plane_listener(tmp_path):
    broker = ManyListeners(tmp_path / "logs", arguments=("--log-level", "request=trace"))
    with broker.start():
        create_topic(broker.address, "told-of")
    for name in ("UPDATE_METADATA", "LEADER_AND_ISR"):
        listener_ports = re.findall(rf" {name} v\d+ from 127\.0\.0\.1:(\d+)-", broker.log_text)
        assert set(listener_ports) == {str(broker.ports[CONTROL])}


# Threads


def test_concurrent_connections_each_get_their_responses_in_order(broker):
    create_topic(broker.address, "of-many")
    rounds = 20
    with ExitStack() as stack:
        clients = [
            stack.enter_context(PartitionClient(broker.address, "of-many"))
            for _ in range(CONNECTIONS)
        ]
        for _ in range(rounds):
            for client in clients:
                values = client.produce_values(batch_of(b"x" * 1_000))
                client.wire.send(ApiKey.PRODUCE, 9, **values)
        for client in clients:
            ids = [struct.unpack_from(">i", client.wire.answer_bytes()) for _ in range(rounds)]
            assert ids == [(1 + number,) for number in range(rounds)]
        assert clients[0].offset_at(LATEST) == rounds * CONNECTIONS


def test_fetch_responses_from_a_deleted_file_arrive_whole_on_every_thread(broker):
    values = [bytes([number]) * 900_000 for number in range(8)]
    create_topic(broker.address, "deleted", file_delete_delay_ms=0)
    with PartitionClient(broker.address, "deleted") as client:
        for value in values:
            client.produce(batch_of(value))
    with ExitStack() as stack:
        readers = accepted_clients(stack, broker.address)
        for reader in readers:
            reader.send(ApiKey.FETCH, 11, **fetch_fields("deleted"))
        for reader in readers:
            reader.socket.recv(1, MSG_PEEK)
        response = call(
            broker.address,
            ApiKey.DELETE_TOPICS,
            5,
            topic_names=["deleted"],
            timeout_ms=TIMEOUT_MS,
        )
        assert response.responses[0].error_code == 0
        assert all(map(is_answered, accepted_clients(stack, broker.address)))
        fetched = {records_in(reader.answer(ApiKey.FETCH, 11)) for reader in readers}
    (read,) = fetched
    assert all(value in read for value in values)


# The control plane


def test_control_plane_is_served_while_all_others_wait_for_a_slow_sender(tmp_path):
    # One byte for every processor.
    setting = f"queued.max.request.bytes={THREADS * len(LISTENERS)}"
    with ManyListeners(tmp_path / "logs", setting).start() as broker, ExitStack() as stack:
        slow = accepted_clients(stack, broker.address, THREADS)
        others = accepted_clients(stack, broker.address, THREADS)
        for client in slow:
            client.send_bytes(struct.pack(">i", 1 << 20) + b"begun")
        for client in others:
            send_until_unanswered(client)
        assert accepts_controller_requests(broker.address_of(CONTROL))
        assert is_answered(*accepted_clients(stack, broker.address_of(BROKERS), 1))
        for client in slow:
            client.close()
        for client in others:
            client.answer(ApiKey.API_VERSIONS, 0)


def send_until_unanswered(client):
    """Sends requests until one is not answered: then what was sent before has arrived."""
    client.socket.settimeout(SILENCE_S)
    for _ in range(ATTEMPTS):
        client.send(ApiKey.API_VERSIONS, 0)
        try:
            client.answer(ApiKey.API_VERSIONS, 0)
        except TimeoutError:
            client.socket.settimeout(TIMEOUT_S)
            return
    pytest.fail("all requests are answered")


def test_control_plane_is_served_while_fetches_wait_for_records(broker):
    create_topic(broker.address, "empty")
    with ExitStack() as stack:
        readers = accepted_clients(stack, broker.address)
        for reader in readers:
            reader.send(ApiKey.FETCH, 11, **fetch_fields("empty", max_wait_ms=60_000))
        assert accepts_controller_requests(broker.address_of(CONTROL))
        with PartitionClient(broker.address_of(OUTSIDE), "empty") as client:
            client.produce(batch_of(b"at last"))
        for reader in readers:
            assert b"at last" in records_in(reader.answer(ApiKey.FETCH, 11))


@pytest.mark.parametrize("listener", [BROKERS, CONTROL])
def test_protected_listeners_accept_connections_in_place_of_client_connections(tmp_path, listener):
    # The controller's connection is not counted.
    limit = "max.connections=2"
    with ManyListeners(tmp_path / "logs", limit).start() as broker, ExitStack() as stack:
        first, second = accepted_clients(stack, broker.address, 2)
        waiting = stack.enter_context(WireClient(broker.address))
        send_until_unanswered(waiting)
        (privileged,) = accepted_clients(stack, broker.address_of(listener), 1)
        assert first.is_hung_up()
        assert is_answered(second)
        second.close()
        privileged.close()
        waiting.answer(ApiKey.API_VERSIONS, 0)
