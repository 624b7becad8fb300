"""How fast is a log of a million commits read when its broker starts, and is anybody else served?

The broker is one of its own, with one partition for all groups.  Every commit is a batch, as those
of most clients are.  A start on the full log is compared with one on the empty log; the difference,
in time and in what the broker spent, is taken for the replay.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from broker_clients import LeftOut
from broker_figures import MB, Load, Measured, Tools, topic
from broker_raw import Refused
from broker_raw_loads import drive_all
from broker_sides import OURS, Side, at
from group_members import commit_frame, commit_verdict, group_error, wait_until_coordinated

from tests.support.broker_process import BrokerProcess
from tests.support.loop_watch import held_s
from tests.support.wire_client import WireClient

GROUPS, PARTITIONS = 100, 10
#: A million where the usual amount is filled, fewer in a quick run.
COMMITS_OF_MB = 5000
LOAD_TIMEOUT_S = 300.0
POLL_INTERVAL_S = 0.01
#: All in the segment that is written to: others would be compacted before they are read.
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    f"offsets.topic.segment.bytes={1 << 30}",
)


class Loaded(NamedTuple):
    """From its launch until groups are answered; and how long it let anybody else wait meanwhile.

    Of the latter, what the machine did otherwise is left out: see loop_watch.py.
    """

    seconds: float
    cpu_s: float
    worst_s: float


def replay() -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        if side.name != OURS:
            raise LeftOut("only a broker of ours is started again here")
        commits = tools.filled_mb * COMMITS_OF_MB
        with tempfile.TemporaryDirectory(prefix="odradek-replay-") as directory:
            broker = BrokerProcess(Path(directory) / "logs", *SETTINGS)
            with broker.start():
                wait_until_coordinated(broker.address, [_group_id(0)])
                broker.stop()
                empty = _loaded(broker)
                with topic(at(broker.address, broker.pid), PARTITIONS) as name:
                    _commit(broker, name, commits)
                    broker.stop()
                    size_bytes = _log_bytes(broker)
                    full = _loaded(broker)
        seconds = max(full.seconds - empty.seconds, 1e-3)
        figures = {
            "commits/s": commits / seconds,
            "replay s": seconds,
            "CPU s": full.cpu_s - empty.cpu_s,
            "log MB": size_bytes / MB,
            "worst ms": full.worst_s * 1000,
        }
        return Measured(f"{commits:,} commits", figures)

    return load


def _commit(broker: BrokerProcess, name: str, commits: int) -> None:
    frames = tuple(
        commit_frame(_group_id(group), name, partition)
        for group in range(GROUPS)
        for partition in range(PARTITIONS)
    )
    drive_all(broker.address, frames, commit_verdict(name), commits)


def _log_bytes(broker: BrokerProcess) -> int:
    """Of the only partition of groups."""
    return sum(path.stat().st_size for path in broker.data_dir.glob("__consumer_offsets-0/*.log"))


def _group_id(number: int) -> str:
    return f"replay-{number}"


def _loaded(broker: BrokerProcess) -> Loaded:
    started = time.perf_counter()
    broker.start()
    worst_s, deadline = 0.0, started + LOAD_TIMEOUT_S
    with WireClient(broker.address) as healthy:
        while group_error(broker.address, _group_id(0)) != 0:
            if time.perf_counter() > deadline:
                raise Refused(f"not loaded after {LOAD_TIMEOUT_S} s")
            worst_s = max(worst_s, held_s(healthy, broker.pid))
            time.sleep(POLL_INTERVAL_S)
    cpu_s = at(broker.address, broker.pid).cpu_s()
    assert cpu_s is not None
    return Loaded(time.perf_counter() - started, cpu_s, worst_s)
