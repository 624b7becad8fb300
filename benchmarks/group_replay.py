"""Measures how fast a starting broker loads a million commits, and whether it serves meanwhile.

The benchmark starts a separate broker, with one partition for all groups.  Every commit is a
separate batch, as with most clients.  A start with the full log is compared with a start with the
empty log.  The differences in time and CPU time are attributed to loading.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from broker_targets import ODRADEK, Target, existing_broker
from client_drivers import BenchmarkSkipped
from group_members import (
    commit_error_code_position,
    commit_frame,
    group_error_code,
    wait_for_coordinator,
)
from measurement import MB, Load, LoadOptions, Measurement, temporary_topic
from raw_driver import RequestFailed
from raw_loads import send_requests

from tests.support.broker_process import BrokerProcess
from tests.support.loop_watch import held_s
from tests.support.wire_client import WireClient

GROUPS, PARTITIONS = 100, 10
#: A million with the default ``filled_mb``, fewer in a quick run.
COMMITS_PER_MB = 5000
LOAD_TIMEOUT_S = 300.0
POLL_INTERVAL_S = 0.01
#: All commits stay in the active segment: older segments would be compacted before they are loaded.
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    f"offsets.topic.segment.bytes={1 << 30}",
)


class StartMeasurement(NamedTuple):
    """The time from launch until the groups are loaded, and the longest stall of other requests.

    The stall excludes time in which the machine did other work: see tests/support/loop_watch.py.
    """

    seconds: float
    cpu_s: float
    longest_stall_s: float


def replay() -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        if target.name != ODRADEK:
            raise BenchmarkSkipped("only Odradek can be restarted here")
        commits = options.filled_mb * COMMITS_PER_MB
        with tempfile.TemporaryDirectory(prefix="odradek-replay-") as directory:
            broker = BrokerProcess(Path(directory) / "logs", *SETTINGS)
            with broker.start():
                wait_for_coordinator(broker.address, [_group_id(0)])
                broker.stop()
                empty = _measure_start(broker)
                with temporary_topic(
                    existing_broker(broker.address, broker.pid), PARTITIONS
                ) as name:
                    _commit(broker, name, commits)
                    broker.stop()
                    size_bytes = _log_bytes(broker)
                    full = _measure_start(broker)
        seconds = max(full.seconds - empty.seconds, 1e-3)
        metrics = {
            "commits/s": commits / seconds,
            "replay s": seconds,
            "CPU s": full.cpu_s - empty.cpu_s,
            "log MB": size_bytes / MB,
            "max stall ms": full.longest_stall_s * 1000,
        }
        return Measurement(f"{commits:,} commits", metrics)

    return load


def _commit(broker: BrokerProcess, name: str, commits: int) -> None:
    frames = tuple(
        commit_frame(_group_id(group), name, partition)
        for group in range(GROUPS)
        for partition in range(PARTITIONS)
    )
    send_requests(broker.address, frames, commit_error_code_position(name), commits)


def _log_bytes(broker: BrokerProcess) -> int:
    """The size of the only partition of the offsets topic."""
    return sum(path.stat().st_size for path in broker.data_dir.glob("__consumer_offsets-0/*.log"))


def _group_id(number: int) -> str:
    return f"replay-{number}"


def _measure_start(broker: BrokerProcess) -> StartMeasurement:
    started = time.perf_counter()
    broker.start()
    longest_stall_s, deadline = 0.0, started + LOAD_TIMEOUT_S
    with WireClient(broker.address) as client:
        while group_error_code(broker.address, _group_id(0)) != 0:
            if time.perf_counter() > deadline:
                raise RequestFailed(f"the groups are not loaded after {LOAD_TIMEOUT_S} s")
            longest_stall_s = max(longest_stall_s, held_s(client, broker.pid))
            time.sleep(POLL_INTERVAL_S)
    cpu_s = existing_broker(broker.address, broker.pid).cpu_s()
    assert cpu_s is not None
    return StartMeasurement(time.perf_counter() - started, cpu_s, longest_stall_s)
