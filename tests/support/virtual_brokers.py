"""Whole brokers in one thread: real parts on real logs, without sockets, threads and clocks.

Everything that travels, or sleeps in the kernel, is delayed as the weather has it.  A cut is a
cable that is pulled: what is on its way arrives when it is back.  Clients are never cut off.

Owner: the event loop, a virtual one.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress

from odradek.broker.assembly import BrokerAssembly, BrokerDependencies
from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.settings.dynamic_settings import DynamicSettings, ProducerStateManagerConfig
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.task_registry import TaskRegistry
from odradek.config.definition import ConfigSource
from odradek.controller.registration import create_top_level_paths
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.errors import KafkaError, KafkaStorageError
from odradek.protocol.file_region import FileRegion
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
from tests.support.distant_store import DistantStore
from tests.support.log_managers import Notebook
from tests.support.logs import bytes_of

LISTENER = "PLAINTEXT"
#: Of those that come to a cut, and look whether it is mended.
LOOK_EVERY_S = 0.02
LOST = 0.01
SESSION_S = 6
CLIENT = 0


class DistantSession(DistantStore):
    """What a broker is cut off from is told when it is not any more."""

    def __init__(self, tree, weather, now_ms):
        super().__init__(tree, weather, now_ms)
        self.is_cut = False
        self._held = []

    def mend(self):
        self.is_cut = False
        held, self._held = self._held, []
        for listener, event in held:
            self.tell(listener, event)

    def tell(self, listener, event):
        if self.is_cut:
            self._held.append((listener, event))
        else:
            super().tell(listener, event)

    async def _sent(self):
        while self.is_cut:  # noqa: ASYNC110 - no time passes by that
            await asyncio.sleep(LOOK_EVERY_S)
        return await super()._sent()


class Lines:
    """Between brokers, and from clients to them."""

    def __init__(self, weather):
        self.weather = weather
        self.running = {}
        #: Who is cut off from all others, and who from each other only.
        self.cut, self.cut_pairs = set(), set()
        self._under_way = set()

    def client(self, source, target, *, timeout_s):
        return VirtualClient(self, source, target, timeout_s)

    def start(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def travel(self, source, target):
        await asyncio.sleep(self.weather.delay_s())
        while self._is_cut({source, target}):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(LOOK_EVERY_S)
        if self.weather.happens(LOST):
            raise ConnectionResetError("lost")

    def _is_cut(self, ends):
        if len(ends) == 1 or CLIENT in ends:
            return False
        return bool(self.cut & ends) or frozenset(ends) in self.cut_pairs

    def mend(self, number):
        self.cut.discard(number)
        self.cut_pairs = {pair for pair in self.cut_pairs if number not in pair}

    async def close(self):
        for task in [*self._under_way]:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)


class VirtualClient:
    """Of one broker; requests wait for one another."""

    def __init__(self, lines, source, target, timeout_s):
        self._lines, self._source, self._target = lines, source, target
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        self._answer = None
        self._is_closed = False

    async def send(self, request, *, version):
        async with self._turn:
            if self._is_closed:
                raise ConnectionAbortedError("closed")
            answer = self._answer = asyncio.get_running_loop().create_future()
            self._lines.start(self._travel(_travelled(request, version), version, answer))
            async with asyncio.timeout(self._timeout_s):
                return await answer

    def close(self):
        self._is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionAbortedError("closed"))

    async def _travel(self, request, version, answer):
        try:
            await self._lines.travel(self._source, self._target)
            if answer.done():
                return  # given up: its connection is closed
            there = self._lines.running.get(self._target)
            if there is None:
                raise ConnectionRefusedError(f"broker {self._target} does not run")
            response = await there.answer(request, version)
            await self._lines.travel(self._target, self._source)
        except OSError as failure:
            if not answer.done():
                answer.set_exception(failure)
        else:
            if not answer.done():
                answer.set_result(response)


def _travelled(message, version):
    """As it arrives, in a buffer of its own."""
    return decode(type(message), version, memoryview(bytearray(encode_bytes(message, version))))


class VirtualDisk:
    """What sleeps is done after a while, or never, if the broker is killed meanwhile."""

    def __init__(self, weather):
        self._weather = weather
        self._turns = defaultdict(asyncio.Lock)

    async def run(self, call, *arguments):
        await asyncio.sleep(self._weather.delay_s())
        return call(*arguments)

    async def run_in(self, directory, function, *arguments):
        return await self.run(function, *arguments)

    async def execute(self, work):
        if work.is_exclusive:
            async with self._turns[work.directory]:
                await self._execute(work)
        else:
            await self._execute(work)

    async def _execute(self, work):
        with work:
            await asyncio.sleep(self._weather.delay_s())
            work.run()

    async def execute_all(self, works, *, parallelism=1):
        for work in works:
            with suppress(KafkaStorageError):
                await self.execute(work)

    def close(self):
        """There is nothing to wait for."""


class VirtualAssembly(BrokerAssembly):
    """Its clients of other brokers are virtual, too."""

    def __init__(self, ground, lines):
        self._lines = lines
        super().__init__(ground)

    def create_client(self, node, *, purpose, timeout_ms=None):
        if node.id == self._dependencies.broker_id:
            return super().create_client(node, purpose=purpose)
        timeout_s = (timeout_ms or 3000) / 1000
        return self._lines.client(self._dependencies.broker_id, node.id, timeout_s=timeout_s)

    def _create_fetcher_client(self, node):
        return self._lines.client(self._dependencies.broker_id, node.id, timeout_s=3)

    def _create_controller_channel(self, broker):
        return self._lines.client(self._dependencies.broker_id, broker.id, timeout_s=3)


class VirtualBroker:
    """From ``start`` to ``kill``, again and again, on the same logs."""

    def __init__(self, number, path, tree, lines, loop, **settings):
        self.number, self.path = number, path
        self._tree, self._lines, self._loop = tree, lines, loop
        self._file = {
            "broker.id": str(number),
            "log.dirs": str(path),
            "zookeeper.connect": "nowhere",
            "listeners": f"{LISTENER}://broker-{number}:9092",
            **settings,
        }

    async def start(self):
        weather = self._lines.weather
        self.background = TaskRegistry()
        self.store = DistantSession(self._tree, weather, self._loop.now_ms)
        await self.store.open_session()
        await create_top_level_paths(self.store)
        directories = LogDirectories([self.path], Notebook())
        directories.open()
        settings = DynamicSettings(
            ServerSettings.read({ConfigSource.FILE: self._file}), broker_id=self.number
        )
        await settings.load(self.store)
        table = TopicSettingsRegistry(
            settings.topic_defaults, ProducerStateManagerConfig(settings), settings.topics
        )
        self.logs = LogManager(directories, table)
        self.logs.load(now_ms=self._loop.now_ms())
        settings.add_topic_observer(self.logs)
        ground = BrokerDependencies(
            broker_id=self.number,
            cluster_id="virtual",
            settings=settings,
            store=self.store,
            log_manager=self.logs,
            disk_executor=VirtualDisk(weather),
            cleaner_process=None,
            record_inspector=None,
            task_registry=self.background,
            advertised_endpoints=[Endpoint(LISTENER, LISTENER, f"broker-{self.number}", 9092)],
            local_connections=None,
        )
        self.parts = parts = VirtualAssembly(ground, self._lines)
        await parts.controller.start(registration_timeout_s=2 * SESSION_S)
        await parts.services.features.start()
        lag_s = settings.current.replication.lag_time_max_ms / 1000
        every = self.background.schedule
        every(lambda: lag_s / 2, parts.replica_manager.maybe_shrink_isr, name="laggards")
        every(lambda: 1.0, parts.log_maintenance.checkpoint, name="checkpoints")
        self._lines.running[self.number] = self

    async def answer(self, request, version):
        client = LoopbackClient(
            lambda: self.parts.routes,
            client_id="another",
            listener=LISTENER,
            start_task=self.background.start,
        )
        task = self.background.start(client.send(request, version=version), "an answer")
        await asyncio.wait([task])
        if task.cancelled():
            raise ConnectionResetError(f"broker {self.number} was killed")
        response = task.result()
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for line in topic.partitions:
                    if isinstance(line.records, FileRegion):
                        line.records = bytes_of(line.records)
        return _travelled(response, version)

    async def hand_over(self):
        """As a broker that is told to stop does."""
        for _ in range(3):
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(5):
                    if not await self.parts.controller_client.controlled_shutdown():
                        return
            await asyncio.sleep(0.5)

    async def kill(self):
        """Its files are as they are, and its session goes on."""
        self._lines.running.pop(self.number, None)
        self.parts.replica_fetcher_manager.close()
        await self.parts.controller.close()
        await self.background.stop()
        self.logs.close_handlers()
