"""A network below TCP: packets between brokers, and to ZooKeeper, that are dropped, late or lost.

    with PacketNetwork(brokers=3) as network:
        server = ZooKeeperServer(directory, host=network.zookeeper, port=free_port())
        cluster = Cluster(directory, server, network=network, kind=network.broker)
        network.isolate(0)      # from its peers and from ZooKeeper, not from clients
        network.mend()
        network.loss = 0.05

Every broker lives in a network namespace, whose only way out is a TUN device.  What comes out there
is read here and handed to whom it is for: another broker, or the hub, where ZooKeeper and clients
are, each at an address of its own.  The kernel's own means to this end (netem) may not be there.

Packets that meet a cut are gone.  Nobody is told, and what becomes of a connection is up to TCP,
which sends them again, ever more rarely, and to who waits for an answer.  Packets are lost and
repeated between brokers only; what clients send and get arrives, once, whatever happens.

Owner: the thread of the test; packets have one of their own.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import select
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.broker_process import BrokerProcess
from tests.support.links import ZOOKEEPER, Links
from tests.support.tun_devices import DEVICE, MTU, device, inside, namespace, set_up

CLIENTS = -2
#: Those who run tests at once are not to meet.
NETWORK = f"10.77.{os.getpid() % 256}"
#: The last byte of an address, by whose it is.
PLACES = {ZOOKEEPER: 253, CLIENTS: 254}
#: Where an IPv4 packet has that of its source and of its destination.
SOURCE_AT, TARGET_AT = 15, 19
VERSION_4 = 4
#: More than what a packet may hold has not been sent.
PACKET_BYTES_MAX = MTU + 100


class PacketNetwork(Links):
    """Sound until told otherwise; a delay is of each packet, up to half of it more or less."""

    zookeeper = f"{NETWORK}.{PLACES[ZOOKEEPER]}"

    def __init__(self, *, brokers: int, seed: int = 0) -> None:
        super().__init__(brokers=brokers)
        self.loss = 0.0
        self.repetition = 0.0
        self.lost = 0
        self.random = random.Random(seed)
        self.namespaces = {number: f"odradek-{os.getpid()}-{number}" for number in self._brokers}
        self._ends = {place: end for end, place in PLACES.items()}
        self._ends |= {_place_of(number): number for number in self._brokers}
        #: By whom they lead to; ZooKeeper and clients share one.
        self._devices: dict[int, int] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._wake, self._wakes = os.pipe()
        self._thread = threading.Thread(target=self._carry, name="packets")
        self._undo = ExitStack()

    # What a cluster asks for

    def settings_of(self, broker: int, *, port: int, branch: str) -> tuple[str, ...]:
        return (f"listeners=PLAINTEXT://{address_of(broker)}:{port}",)

    def broker(self, data_dir: Path, *overrides: str, port: int) -> BrokerProcess:
        """Its number is the name of its directory."""
        number = int(data_dir.name)
        place = BrokerInNamespace(data_dir, *overrides, port=port)
        place.namespace, place.host = self.namespaces[number], address_of(number)
        return place

    # Devices

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(os.close, self._wake)
            undo.callback(os.close, self._wakes)
            for number, name in self.namespaces.items():
                undo.enter_context(namespace(name))
                self._devices[number] = inside(name, lambda: device(DEVICE))
                undo.callback(os.close, self._devices[number])
                set_up(address_of(number), device=DEVICE, namespace=name)
            name = f"odr{os.getpid()}"[:15]
            self._devices[CLIENTS] = self._devices[ZOOKEEPER] = device(name)
            undo.callback(os.close, self._devices[CLIENTS])
            set_up(f"{NETWORK}.{PLACES[CLIENTS]}", self.zookeeper, device=name)
            self._thread.start()
            undo.callback(self._end)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._undo.close()

    def _end(self) -> None:
        os.write(self._wakes, b".")
        self._thread.join()

    # Packets

    def _carry(self) -> None:
        waiting = select.poll()  # not select.select: a long run has descriptors above 1,023
        for each in (self._wake, *self._devices.values()):
            waiting.register(each, select.POLLIN)
        while True:
            left_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            found = waiting.poll(None if left_s is None else math.ceil(1000 * left_s))
            ready = [each for each, _ in found]
            if self._wake in ready:
                return
            for each in ready:
                self._take(os.read(each, PACKET_BYTES_MAX))
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(self._late)
                os.write(self._devices[target], packet)

    def _take(self, packet: bytes) -> None:
        if packet[0] >> 4 != VERSION_4:
            return
        source, target = (self._ends.get(packet[at]) for at in (SOURCE_AT, TARGET_AT))
        if source is None or target is None:
            return
        pair = frozenset((source, target))
        if CLIENTS in pair:
            self._send_at(0.0, target, packet)
        elif pair not in self._cut:
            for _ in range(self._copies() if ZOOKEEPER not in pair else 1):
                late_s = self._late_s(pair) * self.random.uniform(0.5, 1.5)
                self._send_at(time.monotonic() + late_s, target, packet)

    def _copies(self) -> int:
        """How many of a packet arrive."""
        if self.random.random() < self.loss:
            self.lost += 1
            return 0
        return 2 if self.random.random() < self.repetition else 1

    def _send_at(self, when: float, target: int, packet: bytes) -> None:
        self._count += 1  # those of one moment stay in order
        heapq.heappush(self._late, (when, self._count, target, packet))


class BrokerInNamespace(BrokerProcess):
    """With an address of its own."""

    namespace: str
    host: str

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *super().command()]


def _place_of(broker: int) -> int:
    return broker + 1  # no host ends in 0


def address_of(broker: int) -> str:
    return f"{NETWORK}.{_place_of(broker)}"
