"""How fast are groups: commits, rebalances, loading?  Beside Apache Kafka in one run, if wanted.

    python benchmarks/groups.py [--kafka [VERSION]] [--quick]

    commits     offset commits a second, one record each, on one connection with five in flight:
                alone, and while 500 members in 100 groups send heartbeats, a producer sends and a
                consumer reads; nobody may lose its session meanwhile
    rebalance   200 members on connections of their own join a group at once, and sync; beside it
                what as many heartbeats take, twice: the client's own round trips
    loading     a broker is started on as many commits as --records says (a million, if not quick),
                and is asked until it has loaded them

Of some rounds the best counts.  The load's own process takes its share of the machine, on both
sides alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

from broker_sides import JAVA_OPTIONS, KAFKA_PROPERTIES

from odradek.protocol.api_keys import ApiKey
from tests.support.apache_kafka import kraft_broker
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import find_coordinator
from tests.support.kafka_jars import KAFKA_3_9, KafkaUnavailable
from tests.support.many_members import LoopMember
from tests.support.partition_client import create_topic
from tests.support.wire_client import call, frame

MEMBERS, GROUPS, SESSION_MS = 500, 100, 10_000
REBALANCED = 200
IN_FLIGHT = 5
SETTINGS = {"group.initial.rebalance.delay.ms": "3000", "offsets.topic.num.partitions": "10"}
LOAD_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class Side:
    """A broker that can be started and stopped."""

    name: str
    address: str
    start: Callable[[], object]
    stop: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Extent:
    rounds: int
    seconds: float
    records: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", nargs="?", const=KAFKA_3_9, metavar="VERSION")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        return asyncio.run(_load(arguments.load))
    extent = Extent(1, 2.0, 100_000) if arguments.quick else Extent(3, 5.0, 1_000_000)
    if arguments.records:
        extent = Extent(extent.rounds, extent.seconds, arguments.records)
    with tempfile.TemporaryDirectory(prefix="odradek-groups-") as directory, ExitStack() as stack:
        try:
            sides = [stack.enter_context(each) for each in _sides(Path(directory), arguments.kafka)]
        except KafkaUnavailable as why:
            print(f"Apache Kafka cannot be started: {why}", file=sys.stderr)
            return 1
        _print([_measured(side, extent) for side in sides], [side.name for side in sides])
    return 0


def _sides(directory: Path, version: str | None) -> Iterator[object]:
    yield _ours(directory / "odradek")
    if version:
        yield _kafka(directory / "kafka", version)


@contextmanager
def _ours(directory: Path) -> Iterator[Side]:
    directory.mkdir()
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    broker = BrokerProcess(directory / "logs", *settings)
    with broker.start():
        yield Side("odradek", broker.address, broker.start, broker.stop)


@contextmanager
def _kafka(directory: Path, version: str) -> Iterator[Side]:
    directory.mkdir()
    properties = {**KAFKA_PROPERTIES, **SETTINGS}
    broker = kraft_broker(directory, version=version, properties=properties)
    os.environ["_JAVA_OPTIONS"] = JAVA_OPTIONS
    broker.start()
    try:
        yield Side(f"kafka {version}", broker.bootstrap, broker.start, broker.stop)
    finally:
        broker.kill()


Figures = dict[str, float]


def _measured(side: Side, extent: Extent) -> Figures:
    create_topic(side.address, "t", partitions=1)
    find_coordinator(side.address)
    loading_s = _loading_s(side, extent.records)  # as long as there is nothing else to load
    find_coordinator(side.address)
    _commits_per_s(side.address, extent.seconds)  # to warm up
    alone = [_commits_per_s(side.address, extent.seconds) for _ in range(extent.rounds)]
    with _under_load(side.address) as told:
        loaded = [_commits_per_s(side.address, extent.seconds) for _ in range(extent.rounds)]
    lost = sum(count for name, count in told.items() if name != "NONE")
    rebalances = [asyncio.run(_rebalance(side.address, n)) for n in range(extent.rounds + 1)]
    return {
        "commits/s alone": max(alone),
        "commits/s under load": max(loaded),
        "under load, of alone": max(loaded) / max(alone),
        "heartbeats answered": told["NONE"],
        "heartbeats refused": lost,
        f"rebalance of {REBALANCED}, ms": min(each[0] for each in rebalances),
        "the client's own trips, ms": min(each[1] for each in rebalances),
        "loading, commits/s": extent.records / loading_s,
    }


def _print(figures: list[Figures], names: list[str]) -> None:
    print(f"{'':28}" + "".join(f"{name:>16}" for name in names) + "   ratio" * (len(names) > 1))
    for measure, first in figures[0].items():
        values = [each[measure] for each in figures]
        ratio = f"{first / values[1]:8.2f}" if len(values) > 1 and values[1] else ""
        print(f"{measure:28}" + "".join(f"{value:16,.2f}" for value in values) + ratio)


# Commits


def _commit(group: str, offset: int) -> bytes:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    return frame(ApiKey.OFFSET_COMMIT, 8, group_id=group, topics=topics)


def _commits_per_s(address: str, seconds: float) -> float:
    end = time.perf_counter() + seconds
    count, begun = 0, time.perf_counter()
    for _ in _committing(address, _commit("committing", 7), lambda: time.perf_counter() < end):
        count += 1
    return count / (time.perf_counter() - begun)


def _committing(address: str, request: bytes, goes_on: Callable[[], bool]) -> Iterator[None]:
    """One for each answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request * IN_FLIGHT)
        answers, size, left = connection.makefile("rb"), 0, IN_FLIGHT
        while left:
            size = int.from_bytes(answers.read(4), "big")
            answers.read(size)
            if goes_on():
                connection.sendall(request)
            else:
                left -= 1
            yield


# The load beside it, in a process of its own


@contextmanager
def _under_load(address: str) -> Iterator[Counter[str]]:
    """What heartbeats were answered is known at the end."""
    command = [sys.executable, __file__, "--load", address]
    told: Counter[str] = Counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield told
        process.stdin.close()
        told.update(json.loads(process.stdout.readline()))


async def _load(address: str) -> int:
    members = [
        LoopMember(address, f"g{number % GROUPS}", session_ms=SESSION_MS)
        for number in range(MEMBERS)
    ]
    told: Counter[str] = Counter()
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as joining:
        for member in members:
            joining.create_task(member.join())
    print("ready", flush=True)
    async with asyncio.TaskGroup() as beating:
        for member in members:
            beating.create_task(member.beat(is_over, told))
        beating.create_task(_produce_and_consume(address, is_over))
        await asyncio.to_thread(sys.stdin.read)
        is_over.set()
    print(json.dumps(told), flush=True)
    return 0


async def _produce_and_consume(address: str, is_over: asyncio.Event) -> None:
    """A hundred records at a time, as soon as the last have been read."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=address, linger_ms=5)
    consumer = AIOKafkaConsumer("t", bootstrap_servers=address)
    await producer.start()
    await consumer.start()
    while not is_over.is_set():
        await asyncio.gather(*[await producer.send("t", b"v" * 1000) for _ in range(100)])
        await consumer.getmany(timeout_ms=100)
    await producer.stop()
    await consumer.stop()


# Rebalances


async def _rebalance(address: str, number: int) -> tuple[float, float]:
    """Milliseconds for all to join again and sync, and for as many heartbeats, twice."""
    group = f"rebalanced-{number}"
    members = [LoopMember(address, group, session_ms=30_000) for _ in range(REBALANCED)]
    await asyncio.gather(*[member.join() for member in members])
    begun = time.perf_counter()
    await asyncio.gather(*[member.join_again() for member in members])
    rebalanced = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(2):
        await asyncio.gather(*[member.call(ApiKey.HEARTBEAT, 2) for member in members])
    own = time.perf_counter() - begun
    for member in members:
        member.close()
    return rebalanced * 1000, own * 1000


# Loading


def _loading_s(side: Side, records: int) -> float:
    """From the moment that the broker answers until it tells what was committed last."""
    count = 0

    def goes_on() -> bool:
        nonlocal count
        count += 1
        return count < records

    for _ in _committing(side.address, _commit("loaded", 11), goes_on):
        pass
    side.stop()
    side.start()
    begun = time.perf_counter()
    asked = {"group_id": "loaded", "topics": [{"name": "t", "partition_indexes": [0]}]}
    while time.perf_counter() - begun < LOAD_TIMEOUT_S:
        answer = call(side.address, ApiKey.OFFSET_FETCH, 5, **asked)
        if not answer.error_code:
            assert answer.topics[0].partitions[0].committed_offset == 11, answer
            return time.perf_counter() - begun
        time.sleep(POLL_INTERVAL_S)
    raise TimeoutError(f"{side.name} has not loaded its groups")


if __name__ == "__main__":
    sys.exit(main())
