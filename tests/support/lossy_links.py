"""Links between brokers that lose, repeat, delay and reorder packets, below TCP.

    with LossyLinks(brokers=3) as links:
        server = ZooKeeperServer(directory, host=links.hub, port=free_port())
        cluster = Cluster(directory, server, network=links, kind=links.broker)
        links.loss, links.delay_s = 0.05, 0.1

Every broker lives in a network namespace, whose only way out is a TUN device.  What comes out there
is read here and handed to whom it is for: another broker, or the hub, where ZooKeeper and clients
are, to which nothing gets lost.  The kernel's own means to this end (netem) may not be there.

It needs Linux, and the right to make namespaces and devices.

Owner: the thread of the test; packets have one of their own.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.broker_process import BrokerProcess

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
NETWORK = "10.77.0"
HUB = 254
MTU = 9_000
#: Where an IPv4 packet has the last byte of its source and of its destination.
SOURCE_AT, TARGET_AT = 15, 19
VERSION_4 = 4


class LossyLinks:
    """Sound until told otherwise; ``delay_s`` is of each packet, up to half of it more or less."""

    hub = f"{NETWORK}.{HUB}"

    def __init__(self, *, brokers: int, seed: int = 0) -> None:
        self.loss = 0.0
        self.repetition = 0.0
        self.delay_s = 0.0
        self.lost = 0
        self._random = random.Random(seed)
        self._names = {number + 1: f"odradek-{os.getpid()}-{number}" for number in range(brokers)}
        self._devices: dict[int, int] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._wake, self._wakes = os.pipe()
        self._thread = threading.Thread(target=self._carry, name="links")
        self._undo = ExitStack()

    # What a cluster asks for

    def settings_of(self, broker: int, *, port: int, branch: str) -> tuple[str, ...]:
        return (f"listeners=PLAINTEXT://{NETWORK}.{broker + 1}:{port}",)

    def broker(self, data_dir: Path, *overrides: str, port: int) -> BrokerProcess:
        """Its number is the name of its directory."""
        number = int(data_dir.name) + 1
        place = BrokerInNamespace(data_dir, *overrides, port=port)
        place.namespace, place.host = self._names[number], f"{NETWORK}.{number}"
        return place

    # Devices

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(os.close, self._wake)
            undo.callback(os.close, self._wakes)
            for number, name in self._names.items():
                _run("ip", "netns", "add", name)
                undo.callback(_run, "ip", "netns", "del", name)
                self._devices[number] = _device_in(name)
                undo.callback(os.close, self._devices[number])
                _set_up("ip", "netns", "exec", name, address=number, device="tun0")
                _run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
            device = f"odr{os.getpid()}"[:15]
            self._devices[HUB] = _device(device)
            undo.callback(os.close, self._devices[HUB])
            _set_up(address=HUB, device=device)
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
        waiting = [self._wake, *self._devices.values()]
        while True:
            left_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            ready, _, _ = select.select(waiting, [], [], left_s)
            if self._wake in ready:
                return
            for device in ready:
                self._take(os.read(device, MTU + 100))
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(self._late)
                os.write(self._devices[target], packet)

    def _take(self, packet: bytes) -> None:
        if packet[0] >> 4 != VERSION_4:
            return
        source, target = packet[SOURCE_AT], packet[TARGET_AT]
        if target not in self._devices:
            return
        if HUB in (source, target):
            self._send_at(0.0, target, packet)
        elif self._random.random() < self.loss:
            self.lost += 1
        else:
            copies = 2 if self._random.random() < self.repetition else 1
            for _ in range(copies):
                late_s = self.delay_s * self._random.uniform(0.5, 1.5)
                self._send_at(time.monotonic() + late_s, target, packet)

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


def _device_in(namespace: str) -> int:
    """Made by a thread that is there, for good; the descriptor can be used by all."""
    made: list[int] = []

    def make() -> None:
        with open(f"/run/netns/{namespace}") as place:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(place.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        made.append(_device("tun0"))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def _set_up(*inside: str, address: int, device: str) -> None:
    _run(*inside, "ip", "addr", "add", f"{NETWORK}.{address}/24", "dev", device)
    _run(*inside, "ip", "link", "set", device, "mtu", str(MTU), "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
