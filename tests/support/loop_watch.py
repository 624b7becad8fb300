"""For how long at most did a broker's loop let others wait?

    with LoopWatch(broker.address, broker.pid) as watch:
        watch.begin()
        ...
    assert watch.held_s < 0.1

A process of its own sends one small request after the other, and measures how long each takes but
for the time in which it, or a thread of the broker, was ready to run and had no processor: of that
Linux keeps account.  (The loop may wait for a thread that has Python's lock and no processor.)
What is left is what the loop did before this request had its turn, computing or asleep, however
busy the machine is with anything else.

Owner: the thread of the test.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from odradek.controller.tied_process import tied_command
from odradek.protocol.api_keys import ApiKey
from tests.support.wire_client import WireClient

PAUSE_S = 0.002
END_TIMEOUT_S = 30
NS = 1e-9


class LoopWatch:
    """Ready when it is entered; the two figures are there when it has been left."""

    def __init__(self, address: str, pid: int) -> None:
        self.requests = 0
        self.held_s = 0.0
        self._watched = (address, str(pid))

    def __enter__(self) -> Self:
        program = [sys.executable, "-m", "tests.support.loop_watch", *self._watched]
        self._process = subprocess.Popen(
            tied_command(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def begin(self) -> None:
        self._order("begin")

    def end(self) -> None:
        self._order("end")

    def _order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def __exit__(self, *failure: object) -> None:
        told, _ = self._process.communicate(timeout=END_TIMEOUT_S)
        self.requests, self.held_s = json.loads(told)


def watch(address: str, pid: int) -> None:
    """From the first line of its standard input to the next, or its end."""
    with WireClient(address) as client:
        client.call(ApiKey.API_VERSIONS, 0)
        _tell("ready")
        sys.stdin.readline()
        is_over = threading.Event()

        def read() -> None:
            sys.stdin.readline()
            is_over.set()

        threading.Thread(target=read, daemon=True).start()
        requests, worst_s = 0, 0.0
        while not is_over.wait(PAUSE_S):
            requests, worst_s = requests + 1, max(worst_s, held_s(client, pid))
    _tell(json.dumps([requests, worst_s]))


def held_s(client: WireClient, pid: int) -> float:
    """By one request.  Nobody who has no processor between two of these lines is held for that."""
    unserved_s = _unserved_s(pid)
    began_s = time.monotonic()
    client.call(ApiKey.API_VERSIONS, 0)
    took_s = time.monotonic() - began_s
    return took_s - (_unserved_s(pid) - unserved_s)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _unserved_s(pid: int) -> float:
    """How long the threads of that process and this one were ready to run and did not."""
    if sys.platform != "linux":
        return 0.0
    accounts = [Path("/proc/thread-self/schedstat"), *Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(each.read_text().split()[1]) for each in accounts) * NS


if __name__ == "__main__":
    watch(sys.argv[1], int(sys.argv[2]))
