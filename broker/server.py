"""Starts and stops a whole broker, in an order that matters.  Kafka: KafkaServer.

    start   lock the log directories, open the store, resolve broker and cluster id, load settings,
            load logs, bind ports, create the replica manager, register, write meta.properties,
            start the controller; only then read requests
    stop    controlled shutdown, stop reading requests, close the controller, stop scheduled jobs,
            close logs, store and worker processes, unlock the log directories

A start that fails undoes the steps that it has completed.

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
from odradek.broker.assembly import BrokerAssembly, BrokerDependencies
from odradek.broker.assigned_partitions import find_assigned_partitions, find_lost_partitions
from odradek.broker.broker_state import BrokerState
from odradek.broker.diagnostics import diagnostics_snapshot
from odradek.broker.disk_executor import DiskExecutor, run_in_parallel
from odradek.broker.identity import resolve_broker_id, resolve_cluster_id
from odradek.broker.log_events import LogEvents
from odradek.broker.metadata_store import check_store_exists, create_store
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.record_inspector import RecordInspector
from odradek.broker.recovery_workers import RecoveryAborted, RecoveryWorkers
from odradek.broker.request import RequestContext, RequestHandler, Response
from odradek.broker.router import Router
from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic_settings import DynamicSettings, ProducerStateManagerConfig
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.startup_gate import StartupGate
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.unclean_election_observer import UncleanElectionObserver
from odradek.broker.worker_process import WorkerProcess
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.dynamic_config_manager import DynamicConfigManager
from odradek.controller.registration import create_top_level_paths
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
from odradek.storage.topic_settings_registry import TopicSettingsRegistry

log = logging.getLogger("kafka.server")

Result = TypeVar("Result")

#: How long requests in progress may take when the broker stops.
DRAIN_TIMEOUT_S = 5.0
#: The timeout of the controlled shutdown while the store is disconnected.
DISCONNECTED_SHUTDOWN_TIMEOUT_S = 2.0
#: The number of sessions that may expire during one step of the start before it fails.
STARTUP_SESSIONS_MAX = 5
#: How long to wait for the first metadata from the controller before clients are served.
FIRST_METADATA_TIMEOUT_S = 30.0
#: How long the only broker of a cluster then waits for the leaders of its partitions.
LOCAL_LEADERS_TIMEOUT_S = 5.0
#: How much later than its timeout a session may expire: ZooKeeper checks at intervals.
SESSION_EXPIRY_DELAY_S = 5.0
#: If clients and broker keep two cores busy, a compaction gets a seventh of them, not a third.
COMPACTION_NICENESS = 5


class NoLogDirectory(Exception):
    """No log directory can be used."""


class ControllerNotReachable(Exception):
    """The controller does not send metadata; the message names the address that it should use."""


class KafkaServer:
    """One broker, from ``start`` to ``stop``."""

    def __init__(self, settings: ServerSettings) -> None:
        self._static_settings = settings
        self.state = BrokerState.NOT_RUNNING
        #: Set when the broker cannot continue because all log directories have failed.
        self.failed = asyncio.Event()
        self._exit_stack = AsyncExitStack()
        self._task_registry = TaskRegistry()
        self._disk_executor = DiskExecutor(settings.network.num_io_threads)
        self._cleaner_process = WorkerProcess(niceness=COMPACTION_NICENESS)
        self._record_inspector = RecordInspector()
        self._log_events = LogEvents()
        self._broker_epoch = -1
        self._is_store_connected = False

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The advertised endpoints with the ports that were bound."""
        return self._socket_server.advertised_endpoints()

    def log_diagnostics(self) -> None:
        """Log the diagnostics.  Call this only after the start."""
        assembly = self._assembly
        snapshot = diagnostics_snapshot(
            self._socket_server, assembly.outgoing_connections, assembly.replica_manager
        )
        log.info("Diagnostics: %s", json.dumps(snapshot))

    async def start(self) -> None:
        """Start the broker.  If that fails, undo everything and raise the error."""
        self.state = BrokerState.STARTING
        try:
            await self._start()
            self.state = BrokerState.RUNNING
        finally:
            if self.state is not BrokerState.RUNNING:
                await self.stop()

    async def stop(self) -> None:
        """Stop everything that has been started so far."""
        if self.state is BrokerState.RUNNING and self._is_controlled_shutdown_enabled:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await self._controlled_shutdown()
        self.state = BrokerState.SHUTTING_DOWN
        await self._exit_stack.aclose()
        self.state = BrokerState.NOT_RUNNING

    @property
    def _registration_timeout_s(self) -> float:
        """By then the session of a killed broker with the same id has expired."""
        return self._static_settings.zookeeper.session_timeout_ms / 1000 + SESSION_EXPIRY_DELAY_S

    # In start-up order; ``_exit_stack`` undoes the steps in reverse order.

    async def _start(self) -> None:
        directories = self._open_directories()
        # Everything that works on files ends before another broker can lock the directories.
        for resource in (self._disk_executor, self._cleaner_process, self._record_inspector):
            self._exit_stack.callback(resource.close)
        check_store_exists(self._static_settings, directories)
        store = await self._open_store()
        cluster_id = await self._retry_on_session_expiry(
            partial(resolve_cluster_id, store, directories)
        )
        broker_id = await self._retry_on_session_expiry(
            partial(resolve_broker_id, store, directories, self._static_settings)
        )
        settings = DynamicSettings(self._static_settings, broker_id=broker_id)
        await self._retry_on_session_expiry(partial(settings.load, store))
        log_manager = await self._load_logs(directories, settings)
        self._bind_listeners(settings.current.network)
        assembly = BrokerAssembly(
            BrokerDependencies(
                broker_id=broker_id,
                cluster_id=cluster_id,
                settings=settings,
                store=store,
                log_manager=log_manager,
                disk_executor=self._disk_executor,
                cleaner_process=self._cleaner_process,
                record_inspector=self._record_inspector,
                task_registry=self._task_registry,
                advertised_endpoints=self._socket_server.advertised_endpoints(),
                local_connections=self._socket_server.local_connections,
            )
        )
        self._assembly = assembly
        await self._detect_lost_partitions(log_manager)
        startup_gate = StartupGate(Router(assembly.routes))
        self._request_handler: RequestHandler = startup_gate
        self._log_events.on_directory_failure = self._on_log_dir_failure
        self._exit_stack.callback(assembly.services.add_partitions_to_txn_manager.close)
        self._exit_stack.callback(assembly.controller_client.close)
        self._exit_stack.push_async_callback(assembly.controller.close)
        self._broker_epoch = await assembly.controller.start(
            registration_timeout_s=self._registration_timeout_s
        )
        directories.write_meta_properties(broker_id=broker_id, cluster_id=cluster_id)
        await self._subscribe_to_config_changes(store, settings)
        await assembly.services.features.start()
        self._start_background_work(assembly, settings)
        # A second time, so that it stops before the controller is closed.
        self._exit_stack.push_async_callback(self._stop_socket_server)
        self._socket_server.start_accepting()
        await self._wait_for_metadata(settings.current.network)
        # The first controller of a cluster has created the feature znode by now.
        await assembly.services.features.refresh()
        await self._wait_for_leaders(log_manager)
        for lookup in assembly.services.coordinator_lookups.values():
            await lookup.refresh_partition_count()
        self._request_handler = startup_gate.open()
        log.info("Broker %d of cluster %s started", broker_id, cluster_id)

    async def _detect_lost_partitions(self, log_manager: LogManager) -> None:
        """Run before registration: after it the controller may elect this broker at once."""
        replicas = self._assembly.replica_manager
        find = partial(
            find_lost_partitions,
            self._store,
            log_manager.logs.current,
            broker_id=replicas.broker_id,
        )
        replicas.lost_partitions |= await self._retry_on_session_expiry(find)

    def _start_background_work(self, assembly: BrokerAssembly, settings: DynamicSettings) -> None:
        self._exit_stack.push_async_callback(assembly.groups.close)
        self._exit_stack.push_async_callback(assembly.transactions.close)
        start_schedules(
            self._task_registry,
            assembly.log_maintenance,
            assembly.replica_manager,
            assembly.groups,
            assembly.transactions,
            settings,
        )
        self._exit_stack.callback(assembly.replica_fetcher_manager.close)

    async def _wait_for_metadata(self, network: NetworkSettings) -> None:
        try:
            await self._assembly.metadata_cache.wait_for_metadata(
                timeout_s=FIRST_METADATA_TIMEOUT_S
            )
        except TimeoutError as error:
            listener = network.control_plane_listener or network.inter_broker_listener
            endpoints = [each for each in self.endpoints if each.listener == listener]
            raise ControllerNotReachable(
                "no metadata from the controller within "
                f"{FIRST_METADATA_TIMEOUT_S:.0f} s; it connects to this broker at "
                f"{', '.join(map(str, endpoints))}, as advertised: see advertised.listeners"
            ) from error

    async def _wait_for_leaders(self, log_manager: LogManager) -> None:
        """The first metadata has no partitions yet, but the first clients need them."""
        broker_id, cluster = self._assembly.replica_manager.broker_id, self._assembly.metadata_cache
        try:
            assigned, strays = await find_assigned_partitions(
                self._store, log_manager.logs.current, broker_id=broker_id
            )
        except SessionExpired:
            log.info("Session expired during start-up; skipping the stray-log check")
            return
        if strays:
            names = ", ".join(f"{topic}-{number}" for topic, number in strays)
            log.warning(
                "Found stray partitions not assigned to this broker, keeping their logs: %s", names
            )
        if cluster.snapshot.brokers.ids != {broker_id}:
            return
        missing = await cluster.wait_for_leaders(assigned, timeout_s=LOCAL_LEADERS_TIMEOUT_S)
        if missing:
            log.warning("Topics with leaderless partitions: %s", ", ".join(sorted(missing)))

    def _open_directories(self) -> LogDirectories:
        names = map(Path, self._static_settings.log.directories)
        directories = LogDirectories([*names], self._log_events)
        directories.open()
        self._exit_stack.callback(directories.release)
        _check_any_log_dir_online(directories)
        return directories

    async def _open_store(self) -> MetadataStore:
        store = create_store(
            self._static_settings, disk_executor=self._disk_executor, now_ms=clock.now_ms
        )
        store.add_session_listener(self._on_session_state_change)
        await store.open_session()
        self._exit_stack.push_async_callback(store.close)
        self._store = store
        await self._retry_on_session_expiry(partial(create_top_level_paths, store))
        return store

    async def _retry_on_session_expiry(self, operation: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat the operation in a new session.  Before registration only this opens sessions."""
        for _ in range(STARTUP_SESSIONS_MAX):
            try:
                return await operation()
            except SessionExpired as error:
                log.warning(
                    "Session expired before the broker was registered, opening a new one: %s", error
                )
                await self._store.open_session()
        return await operation()

    async def _load_logs(
        self, directories: LogDirectories, settings: DynamicSettings
    ) -> LogManager:
        self.state = BrokerState.RECOVERING
        topics = TopicSettingsRegistry(
            settings.topic_defaults, ProducerStateManagerConfig(settings), settings.topics
        )
        log_manager = LogManager(directories, topics)
        worker_count = settings.current.log.recovery_threads_per_dir * len(directories.all)
        workers = RecoveryWorkers(worker_count)
        # Although this computes, it runs on a thread: the event loop serves only signals so far.
        load_task = self._disk_executor.run(
            partial(log_manager.load, now_ms=clock.now_ms(), run_all=workers)
        )
        try:
            await asyncio.shield(load_task)
        except asyncio.CancelledError:
            workers.abort()
            with suppress(RecoveryAborted):
                await load_task
            log_manager.close_handlers()
            raise
        # Only now: logs that were not loaded must not be marked as cleanly shut down.
        self._exit_stack.push_async_callback(self._close_logs, log_manager)
        _check_any_log_dir_online(directories)  # loading may reveal a broken disk
        settings.add_topic_observer(log_manager)
        return log_manager

    async def _close_logs(self, log_manager: LogManager) -> None:
        await self._disk_executor.run(
            partial(
                log_manager.close,
                now_ms=clock.now_ms(),
                run_all=run_in_parallel,
                broker_epoch=self._broker_epoch,
                keep_locks=True,
            )
        )

    def _bind_listeners(self, network: NetworkSettings) -> None:
        self._exit_stack.push_async_callback(self._task_registry.stop)
        self._socket_server = SocketServer(
            network,
            self._handle_request,
            start_task=self._task_registry.start,
            new_loop=type(asyncio.get_running_loop()),
        )
        self._socket_server.open()
        self._exit_stack.push_async_callback(self._stop_socket_server)

    async def _stop_socket_server(self) -> None:
        await self._socket_server.stop(timeout_s=DRAIN_TIMEOUT_S)

    def _handle_request(self, frame: memoryview, context: RequestContext) -> Response:
        return self._request_handler(frame, context)

    async def _subscribe_to_config_changes(
        self, store: MetadataStore, settings: DynamicSettings
    ) -> None:
        settings.add_listener(NetworkSettings, self._socket_server.apply)
        settings.add_listener(ControllerSettings, self._assembly.controller.change_settings)
        settings.add_listener(
            ReplicationSettings, self._assembly.replica_fetcher_manager.on_settings_change
        )
        on_enabled = self._assembly.controller.enable_topic_unclean_leader_election
        settings.add_topic_observer(UncleanElectionObserver(on_enabled))
        config_manager = DynamicConfigManager(
            store, settings.apply_config, now_ms=clock.now_ms, start_task=self._task_registry.start
        )
        self._exit_stack.push_async_callback(config_manager.close)
        await config_manager.start()

    # Events while the broker runs

    def _on_session_state_change(self, state: SessionState) -> None:
        self._is_store_connected = state is SessionState.CONNECTED

    def _on_log_dir_failure(self, directory: LogDirectory, is_last: bool) -> None:
        self._assembly.replica_manager.handle_log_dir_failure(directory)
        if is_last:
            log.critical("Shutdown broker because all log dirs have failed")
            self.failed.set()
        else:
            self._task_registry.start(self._propagate_log_dir_event(), "log directory failure")

    async def _propagate_log_dir_event(self) -> None:
        """Make the controller send LeaderAndIsr, whose response reports the offline replicas."""
        event = LogDirEvent(self._assembly.replica_manager.broker_id).encode()
        with suppress(StoreError):
            await self._store.create(paths.LOG_DIR_EVENTS.create_path, event, is_sequential=True)

    @property
    def _is_controlled_shutdown_enabled(self) -> bool:
        return self._assembly.services.settings.current.broker.controlled_shutdown_enable

    async def _controlled_shutdown(self) -> None:
        """Move leadership to other brokers where possible.  Kafka: KafkaServer.controlledShutdown.

        The other partitions have no leader until this broker is back.
        """
        settings = self._assembly.services.settings.current.broker
        for _ in range(1 + settings.controlled_shutdown_max_retries):
            timeout_s = settings.controller_socket_timeout_ms / 1000
            try:
                async with asyncio.timeout(
                    timeout_s if self._is_store_connected else DISCONNECTED_SHUTDOWN_TIMEOUT_S
                ):
                    if not await self._assembly.controller_client.controlled_shutdown():
                        return
            except TimeoutError:
                log.warning("Controlled shutdown timed out; leadership was not moved")
                return
            except KafkaError as error:
                log.warning("Controlled shutdown request failed: %s", error)
                if not self._is_store_connected:
                    return  # without the store no other controller will be found
            await asyncio.sleep(settings.controlled_shutdown_retry_backoff_ms / 1000)


def _check_any_log_dir_online(directories: LogDirectories) -> None:
    if not directories.online:
        raise NoLogDirectory("no log directory can be used; the errors are logged above")
