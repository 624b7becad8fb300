"""A broker with a listener for each kind of peer, and three threads for each but the last.

    PLAINTEXT   clients; the port and the address of the process
    OUTSIDE     clients that are told of an address which only they could reach
    BROKERS     other brokers, which are told of another name of this machine
    CONTROL     the controller alone

A test module that imports ``broker`` from here has one such broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.free_ports import free_port

PLAINTEXT, OUTSIDE, BROKERS, CONTROL = LISTENERS = ("PLAINTEXT", "OUTSIDE", "BROKERS", "CONTROL")
THREADS = 3
OUTSIDE_ADDRESS = ("kafka.example.org", 19_092)


class ManyListeners(BrokerProcess):
    """``ports`` by listener."""

    def __init__(self, data_dir: Path, *overrides: str, arguments: tuple[str, ...] = ()) -> None:
        self.ports = {name: free_port() for name in LISTENERS}
        self.advertised = {name: ("127.0.0.1", self.ports[name]) for name in LISTENERS}
        self.advertised[BROKERS] = ("localhost", self.ports[BROKERS])
        self.advertised[OUTSIDE] = OUTSIDE_ADDRESS
        listening = {name: ("127.0.0.1", self.ports[name]) for name in LISTENERS}
        super().__init__(
            data_dir,
            f"listeners={_written(listening)}",
            f"advertised.listeners={_written(self.advertised)}",
            "listener.security.protocol.map=" + ",".join(f"{n}:PLAINTEXT" for n in LISTENERS),
            f"inter.broker.listener.name={BROKERS}",
            f"control.plane.listener.name={CONTROL}",
            f"num.network.threads={THREADS}",
            *overrides,
            arguments=arguments,
            port=self.ports[PLAINTEXT],
        )

    def address_of(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


def _written(addresses: dict[str, tuple[str, int]]) -> str:
    return ",".join(f"{name}://{host}:{port}" for name, (host, port) in addresses.items())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyListeners]:
    with ManyListeners(tmp_path_factory.mktemp("broker") / "logs").start() as running:
        yield running
