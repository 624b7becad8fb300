"""A coordinator of one shard, on a log in memory and a loop whose time passes as the test says."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.settings.transactions import TransactionSettings
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.decisions import EndTransactionRequest
from odradek.broker.transactions.marker_channel_manager import TransactionMarkerChannelManager
from odradek.broker.transactions.shard import TransactionStateShard, wait_for_append
from odradek.broker.transactions.transaction_state import (
    NO_PRODUCER_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from odradek.protocol.errors import KafkaError, NotCoordinator
from odradek.protocol.types import TopicPartition
from tests.support.calls import as_sent, called, in_the_end
from tests.support.group_coordinators import CountsWhatIsSeen
from tests.support.group_log import MemoryLog
from tests.support.participants import Participants
from tests.support.transactions import ID, NOW_MS, TIMEOUT_MS
from tests.support.virtual_loop import VirtualLoop

FIRST_ID = 1000
EVENTS = frozenset({TopicPartition("events", 0)})


class Ids:
    """``is_empty``: the controller has to be asked first."""

    def __init__(self) -> None:
        self._left = count(FIRST_ID)
        self.is_empty = False

    def generate_producer_id_nowait(self) -> int | None:
        return None if self.is_empty else next(self._left)

    async def generate_producer_id(self) -> int:
        await asyncio.sleep(0.01)
        return next(self._left)


class OneShard:
    """Stands for all partitions of ``__transaction_state``; None while this broker has none."""

    is_loading = False

    def __init__(self) -> None:
        self.current: TransactionStateShard | None = None

    def shard(self, index: int) -> TransactionStateShard:
        if self.current is None:
            raise NotCoordinator()
        return self.current

    def __iter__(self) -> Iterator[TransactionStateShard]:
        return iter([self.current] if self.current else [])


class TransactionScene:
    """``version`` is the ``transaction.version`` of the cluster."""

    def __init__(self, *, version: int = 2, **settings: Any) -> None:
        self.loop = VirtualLoop()
        self.version = version
        self.log = MemoryLog()
        self.log.partition = SimpleNamespace(leader_epoch=5)  # type: ignore[attr-defined]
        self.ids = Ids()
        self.participants = Participants()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.world = TransactionContext(
            TransactionSettings(**settings),
            lambda: NOW_MS + self.loop.now_ms(),
            self.ids,
            lambda: self.version,
            self._start,
            asyncio.sleep,
        )
        self.markers = TransactionMarkerChannelManager(
            self.participants,
            self.world,
            self.participants,
            listener="INSIDE",
            has_partition=self.participants.has_partition,
        )
        self.shards = OneShard()
        #: Whether this broker has been told of the cluster's topics.
        self.has_picture = True
        nobody: Any = None
        cluster: Any = SimpleNamespace(topic=self._topic)
        lookup = CoordinatorLookup(
            TRANSACTION_STATE,
            cluster,
            nobody,
            CountsWhatIsSeen(),
            configured_partition_count=lambda: 50,
            start_task=nobody,
        )
        means: Any = None
        self.coordinator = TransactionCoordinator(lookup, self.world, means, self.markers)
        self.coordinator.runtime = self.shards  # type: ignore[assignment]
        self.lead()

    def _topic(self, name: str) -> Any:
        return SimpleNamespace(partitions={0: "all of it"}) if self.has_picture else None

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.loop.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # Leadership

    def lead(self) -> None:
        """The log is read, and what is prepared in it is completed."""
        shard = self.replayed()
        self.shards.current = shard
        self.run(self._begin(shard))

    async def _begin(self, shard: TransactionStateShard) -> None:
        shard.on_loaded()

    def replayed(self) -> TransactionStateShard:
        """What the log amounts to; nothing has begun in it."""
        shard = TransactionStateShard(self.log, self.world, self.markers.complete_transaction)  # type: ignore[arg-type]
        for offset, key, value in self.log.replay().records():
            shard.apply(key, value, offset)
        return shard

    def resign(self) -> None:
        shard, self.shards.current = self.shards.current, None
        if shard is not None:
            shard.on_unloaded()

    def kill(self) -> None:
        """Whatever was under way never goes on."""
        self.resign()
        for task in [*self.tasks]:
            task.cancel()
        self.pass_ms(0)

    def close(self) -> None:
        self.kill()
        unseen = [each for each in self.loop.unseen if not self.is_expected(each)]
        self.loop.close()
        assert not unseen, unseen

    def is_expected(self, unseen: dict[str, Any]) -> bool:
        return False

    # Time

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def pass_ms(self, milliseconds: float) -> None:
        self.loop.pass_time(milliseconds / 1000)

    # What is asked

    @property
    def shard(self) -> TransactionStateShard:
        assert self.shards.current is not None
        return self.shards.current

    def state(self, transactional_id: str = ID) -> str:
        found = self.shard.transactions.get(transactional_id)
        return "none" if found is None else found.state.display_name

    def put(self, txn: TransactionMetadata) -> TransactionMetadata:
        """As if it had come to this."""
        self.shard.transactions[txn.transactional_id] = txn
        return txn

    def told(self, work: Coroutine[Any, Any, Any]) -> str:
        """The name of the error, or of none."""
        try:
            self.run(work)
        except KafkaError as failure:
            return failure.error_code.name
        return "NONE"

    def begun(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Until it waits for something."""
        task = self.loop.create_task(work)
        self.pass_ms(0)
        return task

    def init(
        self,
        expected: ProducerIdAndEpoch | None = None,
        *,
        name: str = ID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Coroutine[Any, Any, ProducerIdAndEpoch]:
        return _finished(
            lambda: self.coordinator.init_producer_id(name, expected, timeout_ms=timeout_ms)
        )

    def add(
        self,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition] = EVENTS,
        *,
        name: str = ID,
        client: int = 0,
    ) -> Coroutine[Any, Any, None]:
        return _waited(
            lambda: self.coordinator.add_partitions(
                name, producer, partitions, client_transaction_version=client
            )
        )

    def end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool = True,
        name: str = ID,
        client: int = 0,
    ) -> Coroutine[Any, Any, ProducerIdAndEpoch]:
        return _finished(
            lambda: self.coordinator.end_transaction(
                name, EndTransactionRequest(producer, is_commit, client)
            )
        )

    def open(
        self, *, partitions: frozenset[TopicPartition] = EVENTS, name: str = ID
    ) -> ProducerIdAndEpoch:
        """A producer with an open transaction."""
        producer: ProducerIdAndEpoch = self.run(self.init(name=name))
        self.run(self.add(producer, partitions, name=name))
        return producer


async def _finished(ask: Callable[[], Any]) -> ProducerIdAndEpoch:
    """However long it takes."""
    outcome = ask()
    producer: ProducerIdAndEpoch = (
        outcome if isinstance(outcome, ProducerIdAndEpoch) else await outcome()
    )
    return producer


async def _waited(ask: Callable[[], Any]) -> None:
    await wait_for_append(ask())


def as_logged(transactions: dict[str, TransactionMetadata]) -> dict[str, TransactionMetadata]:
    """Without what is in no log."""
    return {
        name: txn._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
        for name, txn in transactions.items()
    }


@pytest.fixture
def scene() -> Iterator[TransactionScene]:
    """For handlers."""
    scene = TransactionScene()
    yield scene
    scene.close()


def ask(scene: TransactionScene, module: Any, *needed: Any, version: int) -> Any:
    """What the client gets from a handler; the last of ``needed`` is the request."""
    *needed, request = needed  # type: ignore[assignment]
    call = called(request, version=version)
    try:
        answer = scene.run(answered(lambda: module.handle(*needed, call)))
    except KafkaError as failure:
        answer = module.error_response(call, failure)
    return as_sent(answer, version=version)


async def answered(begin: Callable[[], Any]) -> Any:
    return await in_the_end(begin())
