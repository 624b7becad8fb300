"""Three whole brokers in one thread, what befalls them, and clients who keep count.

    cluster = VirtualCluster(path, seed=7)
    cluster.live(faults=10)

Each partition has a producer, idempotent, which sends one record after the other until it is
acknowledged, and a consumer that asks for records and for the end of the log.  What must never be
is in ``violations``:

    an acknowledged record that is not where it was acknowledged, or is there twice
    an offset with two values, or one that a consumer had and is refused
    an end of the log before one that was told earlier
    a replica in sync, as the tree has it, without what was acknowledged
    two leaders in one epoch
    replicas that differ when all is quiet

Owner: the event loop, a virtual one.
"""

import asyncio
from random import Random

from odradek.controller.assignment import Assignment
from odradek.controller.store import paths
from odradek.controller.store.base import Get
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.store.tree import Tree
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import topic_id
from tests.support.distant_store import DistantStore, Weather
from tests.support.logs import records_batch, records_from
from tests.support.virtual_brokers import CLIENT, SESSION_S, Lines, VirtualBroker
from tests.support.virtual_loop import VirtualLoop

TOPIC = "t"
ASSIGNED = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "7",
}
PRODUCE, FETCH, LIST_OFFSETS = 9, 12, 7
LATEST = -1
PAUSES_S = (0.01, 0.1, 0.5, 2, 5)
PATIENCE_S = 120
#: What clients may try again.
RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class VirtualCluster:
    """``log`` is what happened, and when."""

    def __init__(self, path, seed):
        self.loop = VirtualLoop()
        self.random = Random(seed)
        self.weather = Weather(seed)
        self.lines = Lines(self.weather)
        self.tree = Tree()
        self.tool = DistantStore(self.tree, Weather(seed), self.loop.now_ms)
        self.brokers = {
            number: VirtualBroker(
                number, path / str(number), self.tree, self.lines, self.loop, **SETTINGS
            )
            for number in (1, 2, 3)
        }
        self.violations, self.log = [], []
        self.leaders = {}
        self.clients = [Client(self, number) for number in range(len(ASSIGNED))]

    def live(self, faults):
        """From the beginning to the end."""
        try:
            self.loop.run_until_complete(self._live(faults))
        finally:
            self.loop.run_until_complete(self._end())
            self.loop.close()

    async def _live(self, faults):
        await self.tool.open_session()
        for broker in self.brokers.values():
            broker.path.mkdir(parents=True)
            await broker.start()
        assigned = {number: Assignment(each) for number, each in enumerate(ASSIGNED)}
        value = TopicAssignment(assigned, topic_id(TOPIC)).encode()
        await self.tool.create(paths.topic(TOPIC), value)
        await self.until(self.is_whole)
        self.weather.is_calm = False
        for client in self.clients:
            client.start()
        for _ in range(faults):
            await self._befall()
            await asyncio.sleep(self.random.choice(PAUSES_S))
        self.note("calm")
        self.weather.is_calm = True
        for each in self.brokers:
            await self._heal(each)
        await self.until(self.is_whole)
        for client in self.clients:
            await client.stop()
        await self.until(self.is_settled)
        self._compare()

    async def _end(self):
        for client in self.clients:
            client.cancel()
        for number in [*self.lines.running]:
            await self.brokers[number].kill()
        await self.lines.close()

    def note(self, what):
        self.log.append(f"{self.loop.time():.3f} {what}")

    def wrong(self, what):
        self.note(f"WRONG: {what}")
        self.violations.append(what)

    # What befalls brokers

    async def _befall(self):
        number = self.random.choice([*self.brokers])
        if number not in self.lines.running:
            await self._heal(number)
            return
        faults = [
            self._kill,
            self._stop,
            self._isolate,
            self._cut_from_peers,
            self._cut_from_one,
            self._expire,
        ]
        if number in self.lines.cut or self.brokers[number].store.is_cut:
            faults = [self._heal, self._kill]
        fault = self.random.choice(faults)
        self.note(f"{fault.__name__} {number}")
        await fault(number)

    async def _kill(self, number):
        broker, session = self.brokers[number], self.brokers[number].store
        await broker.kill()
        self.lines.mend(number)
        self.lines.start(self._close_later(session))

    async def _close_later(self, session):
        await asyncio.sleep(SESSION_S)
        await session.close()

    async def _stop(self, number):
        broker = self.brokers[number]
        await broker.hand_over()
        await broker.kill()
        await broker.store.close()

    async def _isolate(self, number):
        self.lines.cut.add(number)
        session = self.brokers[number].store
        session.is_cut = True
        self.lines.start(self._expire_later(session))

    async def _expire_later(self, session):
        await asyncio.sleep(SESSION_S)
        if session.is_cut and session.session_id:
            session.expire()

    async def _cut_from_peers(self, number):
        self.lines.cut.add(number)

    async def _cut_from_one(self, number):
        other = self.random.choice([each for each in self.brokers if each != number])
        self.lines.cut_pairs.add(frozenset({number, other}))

    async def _expire(self, number):
        if self.brokers[number].store.session_id:
            self.brokers[number].store.expire()

    async def _heal(self, number):
        self.note(f"heal {number}")
        if number in self.lines.running:
            self.lines.mend(number)
            self.brokers[number].store.mend()
        else:
            await self.brokers[number].start()

    # What is so

    async def until(self, is_so):
        deadline_s = self.loop.time() + PATIENCE_S
        while not is_so():
            if self.loop.time() > deadline_s:
                raise TimeoutError(f"{is_so.__name__} is never so: {self.picture()}")
            await asyncio.sleep(0.1)

    def picture(self):
        return {
            (number, each.topic_partition.partition): (
                each.leader_id,
                each.leader_epoch,
                each.leader and sorted(each.leader.in_sync),
                each.log.high_watermark,
                each.log.end_offset,
            )
            for number, broker in self.lines.running.items()
            for each in broker.parts.replicas
        }

    def state_of(self, partition):
        """Who leads, and in which epoch, as a broker drawn by lot has it."""
        if not self.lines.running:
            return None
        asked = self.lines.running[self.random.choice([*self.lines.running])]
        return asked.parts.cluster.partition(TOPIC, partition)

    def look(self):
        for number, broker in self.lines.running.items():
            for each in broker.parts.replicas:
                if each.leader is not None:
                    key = each.topic_partition.partition, each.leader_epoch
                    first = self.leaders.setdefault(key, number)
                    if first != number:
                        self.wrong(f"{key} is led by {first} and {number}")
        for client in self.clients:
            self._check_in_sync(client)

    def _check_in_sync(self, client):
        """Whoever the tree has in sync may lead next, and has all that was acknowledged."""
        path = paths.partition_state(TopicPartition(TOPIC, client.partition))
        (node,) = self.tree.run(self.tool.session_id, [Get(path)], now_ms=0).outcomes
        state, end = LeaderAndIsr.decode(node.value), 1 + max(client.acked, default=-1)
        for number in state.isr:
            if number not in self.lines.running:
                continue
            for each in self.lines.running[number].parts.replicas:
                is_it = each.topic_partition.partition == client.partition
                if is_it and each.log.end_offset < end:
                    self.wrong(f"{each.log} of {number}, in sync, lacks what is before {end}")

    def is_whole(self):
        led = [
            each
            for broker in self.lines.running.values()
            for each in broker.parts.replicas
            if each.leader is not None and len(each.leader.in_sync) == 3
        ]
        return len(led) == len(ASSIGNED)

    def is_settled(self):
        for partition in range(len(ASSIGNED)):
            found = {
                (each.log.high_watermark, each.log.end_offset)
                for broker in self.lines.running.values()
                for each in broker.parts.replicas
                if each.topic_partition.partition == partition
            }
            if len(found) != 1 or len(set(*found)) != 1:
                return False
        return self.is_whole()

    def _compare(self):
        for client in self.clients:
            contents = [
                [(record.offset, record.value) for record in records_from(each.log)]
                for broker in self.lines.running.values()
                for each in broker.parts.replicas
                if each.topic_partition.partition == client.partition
            ]
            if any(each != contents[0] for each in contents):
                self.wrong(f"replicas of {client.partition} differ")
            client.compare(contents[0])


class Client:
    """Of one partition: it writes and reads."""

    def __init__(self, cluster, partition):
        self.cluster, self.partition = cluster, partition
        self.acked, self.seen = {}, {}
        #: The latest that it has heard of, of the leader.
        self.epoch = -1
        self._is_over = False
        self._tasks = []

    def start(self):
        loop = self.cluster.loop
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._read())]

    async def stop(self):
        self._is_over = True
        for task in self._tasks:
            await task

    def cancel(self):
        for task in self._tasks:
            task.cancel()

    def _leader(self):
        """None if nobody knows, or who was asked knows less than we do."""
        state = self.cluster.state_of(self.partition)
        if state is None or state.leader < 0 or state.leader_epoch < self.epoch:
            return None
        self.epoch = state.leader_epoch
        return state.leader

    async def _ask(self, leader, request, version):
        """None if nobody answered."""
        client = self.cluster.lines.client(CLIENT, leader, timeout_s=4)
        try:
            return await client.send(request, version=version)
        except OSError:
            return None

    async def _write(self):
        count = 0
        while not self._is_over:
            value = f"{self.partition}-{count}".encode()
            offset = await self._written(value, count)
            if offset is None:
                return
            self.acked[offset] = value
            count += 1
            await asyncio.sleep(self.cluster.random.choice((0, 0.01, 0.1)))

    async def _written(self, value, sequence):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        named = ProduceRequest.Topic
        while True:
            entry = named.Partition(
                index=self.partition, records=records_batch(value, timestamp=0, **fields)
            )
            request = ProduceRequest(
                acks=-1, timeout_ms=1500, topic_data=[named(name=TOPIC, partition_data=[entry])]
            )
            leader = self._leader()
            response = None if leader is None else await self._ask(leader, request, PRODUCE)
            if response is not None:
                line = response.responses[0].partition_responses[0]
                error = ErrorCode.of(line.error_code)
                if error is ErrorCode.NONE:
                    return line.base_offset
                if error not in RETRIED:
                    self.cluster.wrong(f"{value!r} is refused: {error.name}")
                    return None
            await asyncio.sleep(0.05)

    async def _read(self):
        position, end = 0, 0
        while not self._is_over:
            self.cluster.look()
            position = await self._polled(position)
            end = await self._looked(end)
            await asyncio.sleep(0.05)

    async def _polled(self, position):
        named, leader = FetchRequest.Topic, self._leader()
        if leader is None:
            return position
        asked = named.Partition(
            partition=self.partition,
            current_leader_epoch=self.epoch,
            fetch_offset=position,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[named(topic=TOPIC, partitions=[asked])],
        )
        response = await self._ask(leader, request, FETCH)
        if response is None or not response.responses:
            return position
        line = response.responses[0].partitions[0]
        error = ErrorCode.of(line.error_code)
        if error is not ErrorCode.NONE:
            if error not in RETRIED:
                self.cluster.wrong(f"{self.partition} from {position} on: {error.name}")
            return position
        for batch in batches_of_any_magic(bytes(line.records or b"")):
            for record in batch.records():
                value = bytes(record.value)
                if record.offset >= position and self.seen.setdefault(record.offset, value) != value:
                    self.cluster.wrong(f"{record.offset} is {self.seen[record.offset]} and {value}")
                position = max(position, record.offset + 1)
        return position

    async def _looked(self, end):
        named, leader = ListOffsetsRequest.Topic, self._leader()
        if leader is None:
            return end
        asked = named.Partition(
            partition_index=self.partition, current_leader_epoch=self.epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[named(name=TOPIC, partitions=[asked])]
        )
        response = await self._ask(leader, request, LIST_OFFSETS)
        if response is None:
            return end
        line = response.topics[0].partitions[0]
        if line.error_code:
            return end
        if line.offset < end:
            self.cluster.wrong(f"{self.partition} ends at {line.offset}, and ended at {end}")
        return max(end, line.offset)

    def compare(self, content):
        values = [bytes(value) for _, value in content]
        there = {offset: bytes(value) for offset, value in content}
        if len(set(values)) < len(values):
            self.cluster.wrong(f"{self.partition} has values twice")
        for kind, known in (("acknowledged", self.acked), ("seen", self.seen)):
            for offset, value in known.items():
                if there.get(offset) != value:
                    self.cluster.wrong(f"{value!r} was {kind} at {offset}: {there.get(offset)!r}")
