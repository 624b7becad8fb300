"""A whole broker: everything is made, started and stopped here, in an order that matters.

    start   log directories locked, store opened, who we are, settings, logs, ports bound, replicas,
            registration, meta.properties, controller; only then are requests read
    stop    leadership handed on, no more requests read, controller, schedules, logs closed, store,
            worker processes, log directories unlocked

A start that fails undoes what it has begun.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from odradek.broker import clock
from odradek.broker.assembly import Assembly, Ground
from odradek.broker.background import Background
from odradek.broker.broker_state import BrokerState
from odradek.broker.call import Answer, Answerer, Peer
from odradek.broker.disk import Disk, side_by_side
from odradek.broker.held_back import HeldBack
from odradek.broker.identity import broker_id_of, cluster_id_of
from odradek.broker.in_hand import in_hand
from odradek.broker.log_events import LogEvents
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.own_partitions import hosted, lost
from odradek.broker.record_reader import RecordReader
from odradek.broker.recovery_workers import GivenUp, RecoveryWorkers
from odradek.broker.router import Router
from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic import DynamicSettings, ProducerLimits
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.store import check_store_is_there, store_for
from odradek.broker.unclean_elections import UncleanElections
from odradek.broker.worker import Worker
from odradek.controller.config_changes import ConfigChanges
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.base import (
    MetadataStore,
    SessionExpired,
    SessionState,
    StoreError,
)
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.protocol.errors import KafkaError
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.topic_table import TopicTable

log = logging.getLogger(__name__)

Found = TypeVar("Found")

#: How long answers in progress may take once the broker is told to stop.
DRAIN_S = 5.0
#: How long the controller may take to let it go, where the store does not answer.
AWAY_S = 2.0
#: A store in which not even this many sessions last for a start is of no use.
SESSIONS_MAX = 5
#: How long the controller may take to tell this broker of the cluster, before clients are let in.
FIRST_PICTURE_S = 30.0
#: How long it may then take to elect itself, where there is nobody else.
OWN_LEADERS_S = 5.0
#: How much later than it says a session may expire: ZooKeeper looks now and then.
EXPIRY_DELAY_S = 5.0
#: Of two cores that clients and broker keep busy, a compaction gets a seventh, not a third.
COMPACTION_NICENESS = 5


class NoLogDirectory(Exception):
    """There is nowhere to keep records."""


class NotReached(Exception):
    """The controller tells this broker nothing; the text says where it should have."""


class Server:
    """One broker, from ``start`` to ``stop``."""

    def __init__(self, settings: ServerSettings) -> None:
        self._written = settings
        self.state = BrokerState.NOT_RUNNING
        #: Set when the broker cannot go on: no log directory is left.
        self.failed = asyncio.Event()
        self._undo = AsyncExitStack()
        self._background = Background()
        self._disk = Disk(settings.network.num_io_threads)
        self._worker = Worker(niceness=COMPACTION_NICENESS)
        self._reader = RecordReader()
        self._events = LogEvents()
        self._broker_epoch = -1
        self._store_answers = False

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What clients are told of where they are served, with the ports that were bound."""
        return self._sockets.advertised()

    def tell_what_is_in_hand(self) -> None:
        """In the log; once it has started."""
        parts = self._parts
        found = in_hand(self._sockets, parts.outgoing, parts.replicas)
        log.info("In hand: %s", json.dumps(found))

    async def start(self) -> None:
        """Raises what went wrong; nothing is left of the attempt then."""
        self.state = BrokerState.STARTING
        try:
            await self._start()
            self.state = BrokerState.RUNNING
        finally:
            if self.state is not BrokerState.RUNNING:
                await self.stop()

    async def stop(self) -> None:
        """Whatever has been started so far."""
        if self.state is BrokerState.RUNNING and self._hands_over:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await self._hand_over()
        self.state = BrokerState.SHUTTING_DOWN
        await self._undo.aclose()
        self.state = BrokerState.NOT_RUNNING

    @property
    def _patience_s(self) -> float:
        """By then the last broker of this name, if it was killed, has no session any more."""
        return self._written.zookeeper.session_timeout_ms / 1000 + EXPIRY_DELAY_S

    # In the order of the start; what is pushed to ``_undo`` is undone in the opposite one.

    async def _start(self) -> None:
        directories = self._open_directories()
        # Whoever works on its files ends before another broker may have the directory.
        for works_on_files in (self._disk, self._worker, self._reader):
            self._undo.callback(works_on_files.close)
        check_store_is_there(self._written, directories)
        store = await self._open_store()
        cluster_id = await self._asked(partial(cluster_id_of, store, directories))
        broker_id = await self._asked(partial(broker_id_of, store, directories, self._written))
        settings = DynamicSettings(self._written, broker_id=broker_id)
        await self._asked(partial(settings.load, store))
        logs = await self._load_logs(directories, settings)
        self._bind(settings.current.network)
        parts = Assembly(
            Ground(
                broker_id=broker_id,
                cluster_id=cluster_id,
                settings=settings,
                store=store,
                logs=logs,
                disk=self._disk,
                worker=self._worker,
                reader=self._reader,
                background=self._background,
                advertised=self._sockets.advertised(),
                own_connections=self._sockets.own,
            )
        )
        self._parts = parts
        await self._look_for_lost_logs(logs)
        held_back = HeldBack(Router(parts.routes))
        self._answerer: Answerer = held_back
        self._events.on_failure = self._directory_failed
        self._undo.callback(parts.services.verifier.close)
        self._undo.callback(parts.controller_client.close)
        self._undo.push_async_callback(parts.controller.close)
        self._broker_epoch = await parts.controller.start(patience_s=self._patience_s)
        directories.claim(broker_id=broker_id, cluster_id=cluster_id)
        await self._follow_configs(store, settings)
        await parts.services.features.start()
        self._begin_work(parts, settings)
        self._undo.push_async_callback(self._stop_sockets)  # before the controller is closed
        self._sockets.accept()
        await self._wait_for_picture(settings.current.network)
        await parts.services.features.look()  # the first controller of a cluster has written them
        await self._wait_for_leaders(logs)
        for lookup in parts.services.coordinators.values():
            await lookup.learn_count()
        self._answerer = held_back.let_go()
        log.info("Broker %d of cluster %s is running", broker_id, cluster_id)

    async def _look_for_lost_logs(self, logs: LogManager) -> None:
        """Before it is registered: as soon as it is, the controller may have it lead them."""
        replicas = self._parts.replicas
        ask = partial(lost, self._store, logs.logs.current, broker_id=replicas.broker_id)
        replicas.lost |= await self._asked(ask)

    def _begin_work(self, parts: Assembly, settings: DynamicSettings) -> None:
        self._undo.push_async_callback(parts.groups.close)
        self._undo.push_async_callback(parts.transactions.close)
        start_schedules(
            self._background,
            parts.care,
            parts.replicas,
            parts.groups,
            parts.transactions,
            settings,
        )
        self._undo.callback(parts.fetchers.close)

    async def _wait_for_picture(self, network: NetworkSettings) -> None:
        try:
            await self._parts.cluster.wait_for_picture(timeout_s=FIRST_PICTURE_S)
        except TimeoutError as late:
            spoken_to = network.control_plane_listener or network.inter_broker_listener
            where = [each for each in self.endpoints if each.listener == spoken_to]
            raise NotReached(
                f"the controller has not reached this broker within {FIRST_PICTURE_S:.0f} s at "
                f"{', '.join(map(str, where))}, which is what it is told: see advertised.listeners"
            ) from late

    async def _wait_for_leaders(self, logs: LogManager) -> None:
        """The first picture has no partitions yet, and clients that come at once want them."""
        broker_id, cluster = self._parts.replicas.broker_id, self._parts.cluster
        try:
            own, strays = await hosted(self._store, logs.logs.current, broker_id=broker_id)
        except SessionExpired:
            log.info("Whose logs these are is not looked for in another session")
            return
        if strays:
            told = ", ".join(f"{topic}-{number}" for topic, number in strays)
            log.warning("No partitions of this broker, but their logs are kept: %s", told)
        if cluster.picture.brokers.ids != {broker_id}:
            return
        missing = await cluster.wait_for_leaders(own, timeout_s=OWN_LEADERS_S)
        if missing:
            log.warning("Nobody leads all of %s", ", ".join(sorted(missing)))

    def _open_directories(self) -> LogDirectories:
        names = map(Path, self._written.log.directories)
        directories = LogDirectories([*names], self._events)
        directories.open()
        self._undo.callback(directories.release)
        _check_any_is_online(directories)
        return directories

    async def _open_store(self) -> MetadataStore:
        store = store_for(self._written, disk=self._disk, now_ms=clock.now_ms)
        store.listen(self._session_changed)
        await store.open_session()
        self._undo.push_async_callback(store.close)
        self._store = store
        await self._asked(partial(create_roots, store))
        return store

    async def _asked(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        """In the next session, if this one is over: nobody else opens it before registration."""
        for _ in range(SESSIONS_MAX):
            try:
                return await ask()
            except SessionExpired as over:
                log.warning("%s: the broker is not registered yet, and begins another", over)
                await self._store.open_session()
        return await ask()

    async def _load_logs(
        self, directories: LogDirectories, settings: DynamicSettings
    ) -> LogManager:
        self.state = BrokerState.RECOVERING
        topics = TopicTable(settings.topic_defaults, ProducerLimits(settings), settings.topics)
        logs = LogManager(directories, topics)
        count = settings.current.log.recovery_threads_per_dir * len(directories.all)
        workers = RecoveryWorkers(count)
        # On a thread, though it computes: nobody is served yet, and signals have to be heard.
        loading = self._disk.run(partial(logs.load, now_ms=clock.now_ms(), run_all=workers))
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:
            workers.give_up()
            with suppress(GivenUp):
                await loading
            logs.abandon()
            raise
        # Only now: what was not loaded must not be marked as closed cleanly.
        self._undo.push_async_callback(self._close_logs, logs)
        _check_any_is_online(directories)  # a disk may show only now that it does not work
        settings.listen_to_topics(logs)
        return logs

    async def _close_logs(self, logs: LogManager) -> None:
        await self._disk.run(
            partial(
                logs.close,
                now_ms=clock.now_ms(),
                run_all=side_by_side,
                broker_epoch=self._broker_epoch,
                keeps_locks=True,
            )
        )

    def _bind(self, network: NetworkSettings) -> None:
        self._undo.push_async_callback(self._background.stop)
        self._sockets = SocketServer(
            network,
            self._answer,
            start=self._background.start,
            new_loop=type(asyncio.get_running_loop()),
        )
        self._sockets.open()
        self._undo.push_async_callback(self._stop_sockets)

    async def _stop_sockets(self) -> None:
        await self._sockets.stop(timeout_s=DRAIN_S)

    def _answer(self, frame: memoryview, peer: Peer) -> Answer:
        return self._answerer(frame, peer)

    async def _follow_configs(self, store: MetadataStore, settings: DynamicSettings) -> None:
        settings.listen(NetworkSettings, self._sockets.apply)
        settings.listen(ControllerSettings, self._parts.controller.change_settings)
        settings.listen(ReplicationSettings, self._parts.fetchers.settings_changed)
        allow = self._parts.controller.allow_unclean_elections
        settings.listen_to_topics(UncleanElections(allow))
        changes = ConfigChanges(
            store, settings.take, now_ms=clock.now_ms, start_task=self._background.start
        )
        self._undo.push_async_callback(changes.close)
        await changes.start()

    # What happens meanwhile

    def _session_changed(self, state: SessionState) -> None:
        self._store_answers = state is SessionState.CONNECTED

    def _directory_failed(self, directory: LogDirectory, is_last: bool) -> None:
        self._parts.replicas.directory_failed(directory)
        if is_last:
            log.critical("No log directory is left: the broker stops")
            self.failed.set()
        else:
            self._background.start(self._report_failure(), "log directory failure")

    async def _report_failure(self) -> None:
        """The controller then asks who can still serve what."""
        event = LogDirEvent(self._parts.replicas.broker_id).encode()
        with suppress(StoreError):
            await self._store.create(paths.LOG_DIR_EVENTS.new, event, is_sequential=True)

    @property
    def _hands_over(self) -> bool:
        return self._parts.services.settings.current.broker.controlled_shutdown_enable

    async def _hand_over(self) -> None:
        """Others lead from here on what they can; the rest has to wait for this broker."""
        settings = self._parts.services.settings.current.broker
        for _ in range(1 + settings.controlled_shutdown_max_retries):
            patience_s = settings.controller_socket_timeout_ms / 1000
            try:
                async with asyncio.timeout(patience_s if self._store_answers else AWAY_S):
                    if not await self._parts.controller_client.shut_down():
                        return
            except TimeoutError:
                log.warning("The controller does not answer: leadership is not handed on")
                return
            except KafkaError as refusal:
                log.warning("The controller does not let this broker go: %s", refusal)
                if not self._store_answers:
                    return  # nor will there be another that does
            await asyncio.sleep(settings.controlled_shutdown_retry_backoff_ms / 1000)


def _check_any_is_online(directories: LogDirectories) -> None:
    if not directories.online:
        raise NoLogDirectory("no log directory can be used; the lines above say why")
