"""Network namespaces, and TUN devices in them: what is sent there is read here, packet by packet.

    namespace("left")       whatever happens, it is gone afterwards
    inside("left", lambda: device(DEVICE))      a descriptor: each read and write is one packet
    set_up("10.77.0.1", device=DEVICE, namespace="left")

It needs Linux, and the right to make namespaces and devices.

Owner: the thread that makes them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Made = TypeVar("Made")

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TUN = "/dev/net/tun"
#: In every namespace.
DEVICE = "tun0"
MTU = 9_000


def may_be_made() -> bool:
    return bool(shutil.which("ip")) and os.access(TUN, os.W_OK) and os.geteuid() == 0


@contextmanager
def namespace(name: str) -> Iterator[None]:
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
        yield
    finally:
        _run("ip", "netns", "del", name)


def inside(namespace: str, make: Callable[[], Made]) -> Made:
    """By a thread that is there for good; what it makes stays there, and can be used by all."""

    def enter() -> None:
        with open(f"/run/netns/{namespace}") as place:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(place.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")

    with ThreadPoolExecutor(max_workers=1, initializer=enter) as thread:
        return thread.submit(make).result()


def device(name: str) -> int:
    opened = os.open(TUN, os.O_RDWR)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return opened


def set_up(*addresses: str, device: str, namespace: str | None = None) -> None:
    """Who connects from there does so from the first of the addresses."""
    inside = ("ip", "netns", "exec", namespace) if namespace else ()
    for address in addresses:
        _run(*inside, "ip", "addr", "add", f"{address}/24", "dev", device)
    _run(*inside, "ip", "link", "set", device, "mtu", str(MTU), "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
