"""Measures the controller with 2,000 partitions on three stand-in brokers, on both stores.

    python benchmarks/controller.py [--partitions 2000] [--directory DIR] [--kafka] [--profile]

    start-up   open a session, read everything, send the metadata to all brokers
    failure    of a broker, until all new leaders are written and sent to all other brokers; once
               for a broker with a replica of every partition, once with a replica of a tenth
    return     of that broker, until it has received the metadata of all partitions
    creation   of topics, one per request and all in one request, until all brokers have them

The embedded store uses SQLite; ZooKeeper is a real server with its defaults.  With ``--kafka``, the
failure is also measured under the controller of Apache Kafka 3.9.1, which takes over the same
znodes and connects to the same stand-in brokers.  The stand-ins share a process with our
controller, but not with Kafka's: see kafka_controller.py.  The fastest round counts.  With
``--profile``, a profile of one failure is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import os
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import kafka_controller
from failover import BROKER_IDS, RANDOM, Failover, Layout, create_topics, register_brokers
from stand_in_brokers import LISTENER, StandInBrokers

from odradek.controller.active_controller import ControllerEnvironment
from odradek.controller.controller import KafkaController
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import BrokerIdentity, create_top_level_paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import SqliteJournal
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import CreatableTopic, NewTopic, TopicDefaults
from odradek.controller.zookeeper_server import CannotStart, ZooKeeperServer
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from tests.support.free_ports import free_port
from tests.support.kafka_jars import KafkaUnavailable

CONTROLLER_ID = 100
ROUNDS = 5
KAFKA_ROUNDS = 10  # the JVM needs some rounds to compile its code
TOPICS_CREATED = 200
START_UP_GOAL_S = 2.0
FAILURE_GOAL_S = 1.0
#: A failure of a tenth of the partitions may take this share of the time for all of them.
PROPORTION_GOAL = 0.25
PROFILED_LINES = 25

OpenStore = Callable[[], Awaitable[MetadataStore]]


def main() -> None:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="odradek-controller-", dir=arguments.directory))
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    try:
        _run_with_embedded_store(root, arguments)
        try:
            _run_with_zookeeper(root / "zookeeper", arguments)
        except CannotStart as reason:
            print(f"ZooKeeper is not available: {reason}")
    finally:
        shutil.rmtree(root)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--directory", help="data directory; default: a temporary directory")
    parser.add_argument("--kafka", action="store_true", help="also measure Kafka's controller")
    parser.add_argument("--profile", action="store_true", help="print a profile of one failure")
    return parser.parse_args()


def _run_with_embedded_store(directory: Path, arguments: argparse.Namespace) -> None:
    best_s = {}
    for layout in _layouts(arguments):
        changed = len(layout.victim_partitions)
        open_store = _embedded_store_opener(directory / f"metadata-{changed}.db")
        best_s[changed] = asyncio.run(_measure("embedded", open_store, layout, arguments))
    _print_proportion(best_s)


def _run_with_zookeeper(directory: Path, arguments: argparse.Namespace) -> None:
    server = ZooKeeperServer(directory, port=free_port())
    server.start()
    best_s = {}
    try:
        for layout in _layouts(arguments):
            changed = len(layout.victim_partitions)
            address = f"{server.address}/failing-{changed}"
            open_store = _zookeeper_store_opener(address)
            best_s[changed] = asyncio.run(_measure("ZooKeeper", open_store, layout, arguments))
            if arguments.kafka and changed == arguments.partitions:
                asyncio.run(_compare_kafka(address, layout, directory, best_s[changed]))
    finally:
        server.stop()
    _print_proportion(best_s)


def _layouts(arguments: argparse.Namespace) -> list[Layout]:
    """Return layouts in which the failing broker has a replica of all, or of a tenth, of them."""
    count = arguments.partitions
    return [Layout.create(count, victim_count=changed) for changed in (count, count // 10)]


def _embedded_store_opener(file: Path) -> OpenStore:
    async def open_store() -> MetadataStore:
        store = EmbeddedStore(SqliteJournal(file), run_in_thread=_run_in_executor, now_ms=_now_ms)
        await store.open_session()
        return store

    return open_store


def _zookeeper_store_opener(address: str) -> OpenStore:
    async def open_store() -> MetadataStore:
        store = ZooKeeperStore(ZooKeeperSettings(connect=address), run_in_thread=_run_in_executor)
        await store.open_session()
        return store

    return open_store


async def _compare_kafka(address: str, layout: Layout, directory: Path, best_s: float) -> None:
    async with _store_session(_zookeeper_store_opener(address)) as broker_session:
        try:
            kafka_times_s = await kafka_controller.measure_failures_s(
                broker_session, layout, zookeeper=address, directory=directory, rounds=KAFKA_ROUNDS
            )
        except KafkaUnavailable as reason:
            print(f"  Apache Kafka is not available: {reason}")
            return
    best, first = min(kafka_times_s), kafka_times_s[0]
    timings = f"{best:.3f} s, first round {first:.3f} s"
    print(f"  failure under Apache Kafka's controller: {timings}, ratio {best / best_s:.2f}")


async def _measure(
    name: str, open_store: OpenStore, layout: Layout, arguments: argparse.Namespace
) -> float:
    """Measure one layout on one store, and return the fastest failure."""
    changed, count = len(layout.victim_partitions), len(layout.partitions)
    print(f"{name}, {count} partitions, {changed} of them on the failing broker")
    brokers = StandInBrokers([CONTROLLER_ID, *BROKER_IDS])
    async with _store_session(open_store) as store:
        await create_top_level_paths(store)
        await create_topics(store, layout)
    async with contextlib.AsyncExitStack() as exit_stack:
        for server in await brokers.listen():
            exit_stack.callback(server.close)
        async with _running_controller(open_store, brokers, layout):
            pass  # the first controller creates the znodes of the partitions
        brokers.clear()
        start = time.perf_counter()
        async with _running_controller(open_store, brokers, layout) as (broker_session, failover):
            _print("start-up", time.perf_counter() - start, START_UP_GOAL_S)
            best_s = await _measure_failover(failover, arguments)
            if changed < count:
                await _measure_topic_creation(broker_session, brokers, count)
    return best_s


@asynccontextmanager
async def _store_session(open_store: OpenStore) -> AsyncIterator[MetadataStore]:
    store = await open_store()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _running_controller(
    open_store: OpenStore, brokers: StandInBrokers, layout: Layout
) -> AsyncIterator[tuple[MetadataStore, Failover]]:
    """Run a controller, and yield once all brokers have its metadata, with the brokers' session."""
    async with contextlib.AsyncExitStack() as exit_stack:
        store = broker_session = await exit_stack.enter_async_context(_store_session(open_store))
        if isinstance(store, ZooKeeperStore):
            broker_session = await exit_stack.enter_async_context(_store_session(open_store))
        group = await exit_stack.enter_async_context(asyncio.TaskGroup())
        await register_brokers(broker_session, brokers, BROKER_IDS)
        environment = ControllerEnvironment(
            connect=brokers.connect,
            start_task=group.create_task,
            sleep=asyncio.sleep,
            now_ms=_now_ms,
            new_topic_id=lambda: random_topic_id(RANDOM),
        )
        identity = BrokerIdentity(CONTROLLER_ID, brokers.registration(CONTROLLER_ID), LISTENER)
        settings = ControllerSettings(auto_leader_rebalance_enable=False)
        controller = KafkaController(store, identity, settings, environment)
        await controller.start()
        exit_stack.push_async_callback(controller.close)
        failover = Failover(broker_session, brokers, layout)
        await failover.wait_until_all_updated()
        yield broker_session, failover


async def _measure_failover(failover: Failover, arguments: argparse.Namespace) -> float:
    failure_times_s, return_times_s = [], []
    for _ in range(ROUNDS):
        failure_times_s.append(await failover.measure_failure_s())
        return_times_s.append(await failover.measure_return_s())
        await failover.recover()
    _print("failure of a broker", min(failure_times_s), FAILURE_GOAL_S)
    _print("return of the broker", min(return_times_s))
    if arguments.profile:
        with _profiled():
            await failover.measure_failure_s()
    return min(failure_times_s)


async def _measure_topic_creation(
    broker_session: MetadataStore, brokers: StandInBrokers, count: int
) -> None:
    admin = TopicAdmin(
        broker_session,
        MetadataReader(broker_session),
        defaults=TopicDefaults,
        random=RANDOM,
        new_topic_id=lambda: random_topic_id(RANDOM),
    )
    for name, batch_size in (("one by one", 1), ("in one request", TOPICS_CREATED)):
        start = time.perf_counter()
        for first in range(0, TOPICS_CREATED, batch_size):
            numbers = range(first, first + batch_size)
            plans = await admin.plan_topics(
                [_entry(f"new-{batch_size}-{each}") for each in numbers]
            )
            topics = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
            assert len(topics) == batch_size, plans
            assert not await admin.create_topics(topics)
            count += batch_size
            await brokers.wait_for_partition_count(count, *BROKER_IDS)
        rate = TOPICS_CREATED / (time.perf_counter() - start)
        print(f"  topics created {name}: {rate:.0f}/s")


def _entry(name: str) -> CreatableTopic:
    return CreatableTopic(
        name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[]
    )


@contextmanager
def _profiled() -> Iterator[None]:
    profile = cProfile.Profile()
    profile.enable()
    yield
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILED_LINES)


def _print(name: str, elapsed_s: float, goal_s: float | None = None) -> None:
    goal = "" if goal_s is None else f" (goal: under {goal_s:g} s)"
    verdict = "  MISSED" if goal_s is not None and elapsed_s > goal_s else ""
    print(f"  {name}: {elapsed_s:.3f} s{goal}{verdict}")


def _print_proportion(best_s: Mapping[int, float]) -> None:
    few, many = sorted(best_s)
    ratio = best_s[few] / best_s[many]
    goal = f"(goal: at most {PROPORTION_GOAL})"
    verdict = "" if ratio <= PROPORTION_GOAL else "  MISSED"
    print(f"  failure, {few} to {many} partitions: ratio {ratio:.2f} {goal}{verdict}")


def _run_in_executor(fn: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().run_in_executor(None, fn, *args)


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    main()
