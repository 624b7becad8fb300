"""Four whole brokers in one thread, what befalls them, and clients who keep count.

    cluster = VirtualCluster(path, seed=7)
    cluster.live(cluster.befall(10))

Clients (virtual_clients.py) write to each partition, read it, and commit how far they have come.
What must never be is in ``violations``:

    an acknowledged record that is not where it was acknowledged, or is there twice
    an offset with two values, or one that a consumer had and is refused
    an end of the log before one that was told earlier
    a replica in sync, as the tree has it, without what was acknowledged
    two leaders in one epoch
    replicas that differ when all is quiet, or a commit that is forgotten then

Owner: the event loop, a virtual one.
"""

import asyncio
from contextlib import suppress
from random import Random

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import GetData, NoNode, StoreError
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import topic_id
from tests.support.distant_store import DistantStore, Weather
from tests.support.logs import records_from
from tests.support.virtual_brokers import SESSION_S, Lines, VirtualBroker
from tests.support.virtual_clients import TOPIC, Client
from tests.support.virtual_loop import VirtualLoop

ASSIGNED = ((1, 2, 3), (2, 3, 4), (4, 1, 2))
FACTOR = 3
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "7",
    "offsets.topic.num.partitions": "2",
    "controller.socket.timeout.ms": "2000",
}
FAULTS = (
    "_kill",
    "_stop",
    "isolate",
    "_cut_from_peers",
    "_cut_from_one",
    "_expire",
    "_reassign",
    "_reassign",
    "_delete_records",
)
PAUSES_S = (0.01, 0.1, 0.5, 2, 5)
PATIENCE_S = 120


class VirtualCluster:
    """``log`` is what happened, and when."""

    def __init__(self, path, seed):
        self.loop = VirtualLoop()
        self.random = Random(seed)
        self.weather = Weather(seed)
        self.lines = Lines(self.weather)
        self.tree = DataTree()
        self.tool = DistantStore(self.tree, Weather(seed), self.loop.now_ms)
        self.brokers = {
            number: VirtualBroker(
                number, path / str(number), self.tree, self.lines, self.loop, **SETTINGS
            )
            for number in (1, 2, 3, 4)
        }
        self.violations, self.log = [], []
        self.leaders = {}
        self.clients = [Client(self, number) for number in range(len(ASSIGNED))]

    def live(self, story):
        """From the beginning to the end; the story is told when all are there."""
        try:
            self.loop.run_until_complete(self._live(story))
        finally:
            self.loop.run_until_complete(self._end())
            self.loop.close()

    async def _live(self, story):
        await self.tool.open_session()
        for broker in self.brokers.values():
            broker.path.mkdir(parents=True)
            await broker.start()
        await self.create(TOPIC, TOPIC, *ASSIGNED)
        await self.until(self.is_whole)
        await story

    async def create(self, topic, named, *replicas):
        """``named`` is what its id is made of."""
        assigned = {number: ReplicaAssignment(each) for number, each in enumerate(replicas)}
        value = TopicAssignment(assigned, topic_id(named)).encode()
        await self.tool.create(paths.topic(topic), value)

    async def befall(self, faults):
        """So many of them; then all becomes quiet, and is compared."""
        self.weather.is_calm = False
        for client in self.clients:
            client.start()
        for _ in range(faults):
            await self._befall()
            await asyncio.sleep(self.random.choice(PAUSES_S))
        self.note("calm")
        self.weather.is_calm = True
        for each in self.brokers:
            await self.heal(each)
        await self.until(self.is_whole)
        for client in self.clients:
            await client.stop()
        await self.until(self.is_settled)
        self._compare()
        for client in self.clients:
            await client.check_commit()

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
            await self.heal(number)
            return
        faults = FAULTS
        if number in self.lines.cut or self.brokers[number].store.is_cut:
            faults = ("heal", "_kill")
        fault = self.random.choice(faults)
        self.note(f"{fault} {number}")
        await getattr(self, fault)(number)

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

    async def isolate(self, number):
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

    async def _reassign(self, number):
        place = TopicPartition(TOPIC, self.random.randrange(len(ASSIGNED)))
        await self.reassign(place, tuple(self.random.sample([*self.brokers], FACTOR)))

    async def reassign(self, place, target):
        """By whoever thinks that it is the controller."""
        for broker in [*self.lines.running.values()]:
            controller = broker.parts.controller
            if controller.is_active:
                with suppress(KafkaError, StoreError, TimeoutError):
                    async with asyncio.timeout(2):
                        await controller.alter_partition_reassignments({place: target})
                    self.note(f"{place} shall be at {target}")

    async def _delete_records(self, number):
        await self.random.choice(self.clients).delete_records()

    async def heal(self, number):
        self.note(f"heal {number}")
        self.lines.mend(number)
        if number in self.lines.running:
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

    def node(self, path):
        return self._found(path).value

    def has_node(self, path):
        return not isinstance(self._found(path), NoNode)

    def _found(self, path):
        (found,) = self.tree.run(self.tool.session_id, [GetData(path)], now_ms=0).outcomes
        return found

    @property
    def assigned(self):
        """Of each partition, the brokers that shall have it, as the tree says."""
        topics = {each.topic_partition.topic for _, each in self.replicas}
        return {
            TopicPartition(topic, number): assignment.replicas
            for topic in topics
            for number, assignment in TopicAssignment.decode(
                self.node(paths.topic(topic)), topic
            ).partitions.items()
        }

    @property
    def replicas(self):
        """Of brokers that run, each with the broker's number."""
        return [
            (number, each)
            for number, broker in self.lines.running.items()
            for each in broker.parts.replica_manager
        ]

    def picture(self):
        return {
            (number, str(each.topic_partition)): (
                each.leader_id,
                each.leader_epoch,
                each.leader_state and _in_sync(each.leader_state),
                each.log.high_watermark,
                each.log.log_end_offset,
            )
            for number, each in self.replicas
        }

    def state_of(self, partition):
        """Who leads, and in which epoch, as a broker drawn by lot has it."""
        if not self.lines.running:
            return None
        asked = self.lines.running[self.random.choice([*self.lines.running])]
        return asked.parts.metadata_cache.partition(TOPIC, partition)

    def look(self):
        for number, each in self.replicas:
            if each.leader_state is not None:
                key = each.topic_partition, each.leader_epoch
                first = self.leaders.setdefault(key, number)
                if first != number:
                    self.wrong(f"{key} is led by {first} and {number}")
        for client in self.clients:
            self._check_in_sync(client)

    def _check_in_sync(self, client):
        """Whoever the tree has in sync may lead next, and has all that was acknowledged."""
        place = TopicPartition(TOPIC, client.partition)
        state = LeaderAndIsr.decode(self.node(paths.partition_state(place)))
        end = 1 + max(client.acked, default=-1)
        for number, each in self.replicas:
            is_in_sync = number in state.isr and each.topic_partition == place
            if is_in_sync and each.log.log_end_offset < end:
                self.wrong(f"{each.log} of {number}, in sync, lacks what is before {end}")

    def is_whole(self):
        """Every partition has a leader, all are in sync, and none is on its way."""
        led = {
            each.topic_partition: each.leader_state
            for _, each in self.replicas
            if each.leader_state is not None and len(each.leader_state.isr) == FACTOR
        }
        assigned = self.assigned
        return len(assigned) >= len(ASSIGNED) and all(
            len(to) == FACTOR and place in led and led[place].isr == set(to)
            for place, to in assigned.items()
        )

    def is_settled(self):
        """All replicas have the same, and know it; none begins before its leader."""
        for logs in self._logs().values():
            leaders, *others = logs
            ends = {end for each in logs for end in (each.high_watermark, each.log_end_offset)}
            if len(ends) > 1 or any(
                each.log_start_offset < leaders.log_start_offset for each in others
            ):
                return False
        return self.is_whole()

    def _logs(self):
        """Of each partition, the leader's first; not those that brokers should have let go of."""
        logs, assigned = {}, self.assigned
        for number, each in sorted(
            self.replicas, key=lambda replica: replica[1].leader_state is None
        ):
            if number in assigned[each.topic_partition]:
                logs.setdefault(each.topic_partition, []).append(each.log)
        return logs

    def _compare(self):
        contents, starts = {}, {}
        for place, logs in self._logs().items():
            # One that led may have deleted more than the next leader ever heard of.
            start = starts[place] = max(each.log_start_offset for each in logs)
            found = [
                [(record.offset, record.value) for record in records_from(each, start)]
                for each in logs
            ]
            contents[place] = found[0]
            if any(each != found[0] for each in found):
                self.wrong(f"replicas of {place} differ")
        for client in self.clients:
            place = TopicPartition(TOPIC, client.partition)
            client.compare(contents[place], start=starts[place])


def _in_sync(role):
    """Who is, who is to be, and how far each follower has come, in which of its lives."""
    followers = {
        number: (
            at.log_end_offset,
            at.broker_epoch,
            at.caught_up_time_ms,
            at.last_fetch_time_ms,
            at.ineligible_until_ms,
        )
        for number, at in role.followers.items()
    }
    return sorted(role.isr), role.pending_isr and sorted(role.pending_isr), followers
