"""A process that writes to logs and tells what it does, to be killed.

Run as a module.  It reads orders from its input, a JSON line each, and carries out each of them in
a process of its own, forked, so that Python starts once for many kills:

    {"root": log directory, "seed": "...", "leader_epoch": 100, "scenario": name or null,
     "steps": 40, "fault": [at, moment] or null}

The fork opens the logs as a broker starts.  Then it plays the scenario, with the calls counted from
there on (of "opening", from the start), or does as many steps as it is told, drawn by lots.  It
tells its process id, each step that begins and each that is done, and at the end the names of the
calls it has counted.  When it is gone, one way or the other, the line ``{"ended": ...}`` follows,
with the signal or the negative exit status.

What was written to a pipe before a kill is not lost.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from odradek.storage import files
from tests.support.crash_host import CrashHost
from tests.support.crash_scenarios import EPOCH, SCENARIOS
from tests.support.crash_steps import Outcome, Step, line_of
from tests.support.crash_workload import Workload
from tests.support.fault_points import Fault, FaultPoints, Unsynced

OUTPUT = 1


class Pipe:
    """To the test."""

    def begin(self, step: Step) -> None:
        os.write(OUTPUT, line_of(step))

    def done(self, step: Step, outcome: Outcome) -> None:
        os.write(OUTPUT, line_of(step, outcome))


def main() -> None:
    files.system = Unsynced()
    warm_up()
    for line in sys.stdin:
        writer = os.fork()
        if writer == 0:
            carry_out(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(writer, 0)
        told({"ended": -os.waitstatus_to_exitcode(status)})


def warm_up() -> None:
    """What is done when it is first needed is done once, not by every fork."""
    with TemporaryDirectory() as directory:
        root = Path(directory, "logs")
        scenario = SCENARIOS["compacting"]
        ledger = scenario.prepared(root)
        host = CrashHost(root, ledger)
        host.open()
        scenario.run(Workload(host, "warm", leader_epoch=EPOCH))
        host.abandon()
    gc.collect()
    gc.disable()


def told(fact: dict[str, Any]) -> None:
    os.write(OUTPUT, json.dumps(fact).encode() + b"\n")


def carry_out(order: dict[str, Any]) -> None:
    told({"pid": os.getpid()})
    points = FaultPoints(Fault(*order["fault"]) if order["fault"] else None)
    if order["scenario"] == "opening":
        files.system = points
    host = CrashHost(Path(order["root"]), Pipe())
    host.open()
    work = Workload(host, order["seed"], leader_epoch=order["leader_epoch"])
    if order["scenario"] is None:
        work.run(order["steps"])
    else:
        files.system = points
        SCENARIOS[order["scenario"]].run(work)
    told({"points": points.names})


if __name__ == "__main__":
    main()
