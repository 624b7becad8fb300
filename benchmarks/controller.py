"""How fast is the controller?  2,000 partitions on three stand-in brokers, on both stores.

    python benchmarks/controller.py [--partitions 2000] [--directory DIR] [--kafka] [--profile]

    start-up   a session begins, everything is read, all brokers are told all
    failure    of a broker, until all leaders are written and all others were told; of one that has
               a replica of every partition, and of one that has a tenth of them
    return     of that broker, until it has the whole picture
    creation   of topics, one request after the other and in one request, until all were told

The embedded store is on SQLite, ZooKeeper a real one, as it comes.  With ``--kafka``, the failure
also under Apache Kafka 3.9.1's controller, which takes the same tree over and reaches the same
stand-ins at their ports; they are in our controller's process, not in Kafka's: kafka_controller.py.
The quickest of some rounds counts.  With ``--profile``, where the time of a failure goes.
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
from failover import BROKERS, CHANCE, Failover, Layout, create_topics, register
from stand_in_brokers import LISTENER, StandInBrokers

from odradek.controller.controller import Controller
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.registration import Identity, create_roots
from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import SqliteJournal
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.tenure import ControllerWorld
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_requests import NewTopic, TopicDefaults, TopicEntry
from odradek.controller.zookeeper_server import CannotStart, ZooKeeperServer
from tests.support.free_ports import free_port
from tests.support.kafka_jars import KafkaUnavailable

CONTROLLER = 100
ROUNDS = 5
KAFKA_ROUNDS = 10  # its compiler needs some
TOPICS_CREATED = 200
START_UP_GOAL_S = 2.0
FAILURE_GOAL_S = 1.0
#: A tenth of the partitions may cost this much of what all cost.
PROPORTION_GOAL = 0.25
PROFILED_LINES = 25

OpenStore = Callable[[], Awaitable[MetadataStore]]


def main() -> None:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="odradek-controller-", dir=arguments.directory))
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    try:
        _on_embedded(root, arguments)
        try:
            _on_zookeeper(root / "zookeeper", arguments)
        except CannotStart as why:
            print(f"without ZooKeeper: {why}")
    finally:
        shutil.rmtree(root)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--directory", help="where to write; a temporary folder by default")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka's controller too")
    parser.add_argument("--profile", action="store_true", help="where the time of a failure goes")
    return parser.parse_args()


def _on_embedded(directory: Path, arguments: argparse.Namespace) -> None:
    best_s = {}
    for layout in _layouts(arguments):
        changed = len(layout.of_victim)
        opened = _embedded(directory / f"metadata-{changed}.db")
        best_s[changed] = asyncio.run(_measure("embedded", opened, layout, arguments))
    _print_proportion(best_s)


def _on_zookeeper(directory: Path, arguments: argparse.Namespace) -> None:
    server = ZooKeeperServer(directory, port=free_port())
    server.start()
    best_s = {}
    try:
        for layout in _layouts(arguments):
            changed = len(layout.of_victim)
            address = f"{server.address}/failing-{changed}"
            opened = _zookeeper(address)
            best_s[changed] = asyncio.run(_measure("ZooKeeper", opened, layout, arguments))
            if arguments.kafka and changed == arguments.partitions:
                asyncio.run(_compare_kafka(address, layout, directory, best_s[changed]))
    finally:
        server.stop()
    _print_proportion(best_s)


def _layouts(arguments: argparse.Namespace) -> list[Layout]:
    """That a broker fails which has a replica of all partitions, or of a tenth of them."""
    count = arguments.partitions
    return [Layout.of(count, with_victim=changed) for changed in (count, count // 10)]


def _embedded(file: Path) -> OpenStore:
    async def opened() -> MetadataStore:
        store = EmbeddedStore(SqliteJournal(file), run=_on_a_thread, now_ms=_now_ms)
        await store.open_session()
        return store

    return opened


def _zookeeper(address: str) -> OpenStore:
    async def opened() -> MetadataStore:
        store = ZooKeeperStore(ZooKeeperSettings(connect=address), run=_on_a_thread)
        await store.open_session()
        return store

    return opened


async def _compare_kafka(address: str, layout: Layout, directory: Path, best_s: float) -> None:
    async with _session(_zookeeper(address)) as outside:
        try:
            theirs = await kafka_controller.failures_s(
                outside, layout, zookeeper=address, directory=directory, rounds=KAFKA_ROUNDS
            )
        except KafkaUnavailable as why:
            print(f"  without Apache Kafka: {why}")
            return
    best, first = min(theirs), theirs[0]
    figures = f"{best:.3f} s, at first {first:.3f} s"
    print(f"  failure under Apache Kafka's controller: {figures}, ratio {best / best_s:.2f}")


async def _measure(
    name: str, opened: OpenStore, layout: Layout, arguments: argparse.Namespace
) -> float:
    """The quickest failure."""
    changed, count = len(layout.of_victim), len(layout.partitions)
    print(f"{name}, {count} partitions, {changed} of them on the broker that fails")
    brokers = StandInBrokers([CONTROLLER, *BROKERS])
    async with _session(opened) as store:
        await create_roots(store)
        await create_topics(store, layout)
    async with contextlib.AsyncExitStack() as endings:
        for server in await brokers.listen():
            endings.callback(server.close)
        async with _running(opened, brokers, layout):
            pass  # the first controller makes the nodes of the partitions
        brokers.forget()
        start = time.perf_counter()
        async with _running(opened, brokers, layout) as (outside, failover):
            _print("start-up", time.perf_counter() - start, START_UP_GOAL_S)
            best_s = await _fail_and_return(failover, arguments)
            if changed < count:
                await _create(outside, brokers, count)
    return best_s


@asynccontextmanager
async def _session(opened: OpenStore) -> AsyncIterator[MetadataStore]:
    store = await opened()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _running(
    opened: OpenStore, brokers: StandInBrokers, layout: Layout
) -> AsyncIterator[tuple[MetadataStore, Failover]]:
    """A controller that has told all brokers everything, and a session of theirs."""
    async with contextlib.AsyncExitStack() as endings:
        store = outside = await endings.enter_async_context(_session(opened))
        if isinstance(store, ZooKeeperStore):
            outside = await endings.enter_async_context(_session(opened))
        group = await endings.enter_async_context(asyncio.TaskGroup())
        await register(outside, brokers, BROKERS)
        world = ControllerWorld(
            connect=brokers.connect,
            start_task=group.create_task,
            sleep=asyncio.sleep,
            now_ms=_now_ms,
            new_topic_id=lambda: random_topic_id(CHANCE),
        )
        identity = Identity(CONTROLLER, brokers.registration(CONTROLLER), LISTENER)
        settings = ControllerSettings(auto_leader_rebalance_enable=False)
        controller = Controller(store, identity, settings, world)
        await controller.start()
        endings.push_async_callback(controller.close)
        failover = Failover(outside, brokers, layout)
        await failover.until_all_are_told()
        yield outside, failover


async def _fail_and_return(failover: Failover, arguments: argparse.Namespace) -> float:
    failing, returning = [], []
    for _ in range(ROUNDS):
        failing.append(await failover.failing_s())
        returning.append(await failover.returning_s())
        await failover.recover()
    _print("failure of a broker", min(failing), FAILURE_GOAL_S)
    _print("its return", min(returning))
    if arguments.profile:
        with _profiled():
            await failover.failing_s()
    return min(failing)


async def _create(outside: MetadataStore, brokers: StandInBrokers, count: int) -> None:
    admin = TopicAdmin(
        outside,
        MetadataReads(outside),
        defaults=TopicDefaults,
        random=CHANCE,
        new_topic_id=lambda: random_topic_id(CHANCE),
    )
    for name, together in (("one by one", 1), ("in one request", TOPICS_CREATED)):
        start = time.perf_counter()
        for first in range(0, TOPICS_CREATED, together):
            numbers = range(first, first + together)
            plans = await admin.plan_topics([_entry(f"new-{together}-{each}") for each in numbers])
            topics = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
            assert len(topics) == together, plans
            assert not await admin.create_topics(topics)
            count += together
            await brokers.until_told_of(count, *BROKERS)
        rate = TOPICS_CREATED / (time.perf_counter() - start)
        print(f"  topics created {name}: {rate:.0f}/s")


def _entry(name: str) -> TopicEntry:
    return TopicEntry(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[])


@contextmanager
def _profiled() -> Iterator[None]:
    profile = cProfile.Profile()
    profile.enable()
    yield
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILED_LINES)


def _print(name: str, elapsed_s: float, goal_s: float | None = None) -> None:
    goal = "" if goal_s is None else f" (goal: under {goal_s:g} s)"
    verdict = "  above it" if goal_s is not None and elapsed_s > goal_s else ""
    print(f"  {name}: {elapsed_s:.3f} s{goal}{verdict}")


def _print_proportion(best_s: Mapping[int, float]) -> None:
    few, many = sorted(best_s)
    ratio = best_s[few] / best_s[many]
    goal = f"(goal: at most {PROPORTION_GOAL})"
    verdict = "" if ratio <= PROPORTION_GOAL else "  above it"
    print(f"  failure, {few} changed to {many}: ratio {ratio:.2f} {goal}{verdict}")


def _on_a_thread(fn: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().run_in_executor(None, fn, *args)


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    main()
