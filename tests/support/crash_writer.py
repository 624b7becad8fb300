"""A process that writes to logs and tells what it does, to be killed.

Started as a script.  It reads orders from its input, a JSON line each, and carries out each of them
in a process of its own, forked, so that Python starts once for many kills:

    {"root": log directory, "seed": "...", "scenario": name or null, "steps": 40,
     "fault": [at, moment] or null}

The fork first opens the logs, as a broker starts; with a scenario, the calls are counted only from
then on.  It writes a line when it begins and one for each step that begins or is done.  When it is
gone, one way or the other, the line ``{"ended": signal or status}`` follows.

What is written to a pipe before a kill is not lost, and is read after it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from odradek.storage import files
from tests.support.crash_host import CrashHost
from tests.support.crash_scenarios import OPENING, SCENARIOS
from tests.support.crash_steps import Outcome, Step, line_of
from tests.support.crash_workload import Workload
from tests.support.fault_points import Fault, FaultPoints, Unsynced

OUTPUT = 1


class Pipe:
    """Tells the test."""

    def begin(self, step: Step) -> None:
        os.write(OUTPUT, line_of(step))

    def done(self, step: Step, outcome: Outcome) -> None:
        os.write(OUTPUT, line_of(step, outcome))


def main() -> None:
    files.system = Unsynced()
    for line in sys.stdin:
        writer = os.fork()
        if writer == 0:
            carry_out(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(writer, 0)
        told({"ended": -os.waitstatus_to_exitcode(status)})


def told(fact: dict[str, Any]) -> None:
    os.write(OUTPUT, json.dumps(fact).encode() + b"\n")


def carry_out(order: dict[str, Any]) -> None:
    told({"pid": os.getpid()})
    host = CrashHost(Path(order["root"]), Pipe())
    fault = order["fault"] and Fault(*order["fault"])
    points = FaultPoints(fault)
    if order["scenario"] == OPENING:
        files.system = points
    host.open()
    told({"opened": True})
    workload = Workload(host, order["seed"])
    if order["scenario"] is None:
        workload.run(order["steps"])
    else:
        files.system = points
        SCENARIOS[order["scenario"]](workload)
    told({"points": points.names})


if __name__ == "__main__":
    main()
