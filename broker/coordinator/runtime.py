"""Becoming the coordinator of a partition of an internal topic, and ceasing to be.

    leadership arrives    the log is read in the background, then applied to a new shard
    it is read            where that matters, all replicas in sync are waited for
    meanwhile             COORDINATOR_LOAD_IN_PROGRESS
    it is there           the shard answers
    leadership leaves     the shard ends, and is dropped; NOT_COORDINATOR
    loading fails         NOT_COORDINATOR as well, until leadership has gone and come again

A shard is what its coordinator makes of one partition.  It stays when only the leader's epoch
changes, as long as this broker led all the time: nobody else can have written.

What is read may be lost yet, if not all replicas in sync have it.  Groups hold back answers that
tell of it; transactions would do what cannot be taken back, and are not loaded before.  That takes
as long as the replicas do, or until those that are away are not in sync any more.

A record that nobody can read, or that leads nowhere, fails its whole partition, as in Kafka: who
passed over it would coordinate something else than what the log says.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from odradek.broker.coordinator.partition_log import Means, PartitionLog
from odradek.broker.coordinator.replay import Replay
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import Turn
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    DecodeError,
    KafkaError,
    NotCoordinator,
)

log = logging.getLogger(__name__)


class Shard(Protocol):
    """The state that one partition holds."""

    def apply(self, key: bytes, value: bytes, offset: int, /) -> None:
        """A record that counts; raises DecodeError if nobody can read it."""

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int, /) -> None:
        """A record that will count if its producer's transaction is committed."""

    def begin(self) -> None:
        """All has been applied."""

    def end(self) -> None:
        """Another may be coordinator from here on: whoever waits is told."""


AnyShard = TypeVar("AnyShard", bound=Shard)


class Loading(Generic[AnyShard]):
    """A partition whose log is being read, or could not be."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.failure: KafkaError = CoordinatorLoadInProgress()
        #: What happened too late to be read: see Shards.when_loaded and after_loading.
        self.afterwards: list[Callable[[AnyShard], None]] = []

    @property
    def is_under_way(self) -> bool:
        return isinstance(self.failure, CoordinatorLoadInProgress)


class Shards(Generic[AnyShard]):
    """The partitions of one internal topic that this broker leads."""

    def __init__(
        self,
        topic: str,
        new_shard: Callable[[PartitionLog], AnyShard],
        means: Means,
        *,
        waits_for_replicas: bool = False,
    ) -> None:
        """``waits_for_replicas`` to have what a shard is made of before that begins."""
        self.topic = topic
        self._waits_for_replicas = waits_for_replicas
        self._new_shard = new_shard
        self._means = means
        self._loading: dict[int, Loading[AnyShard]] = {}
        self._loaded: dict[int, tuple[Partition, AnyShard]] = {}

    def __iter__(self) -> Iterator[AnyShard]:
        return iter([shard for _, shard in self._loaded.values()])

    @property
    def is_loading(self) -> bool:
        """What could not be loaded is not being loaded any more."""
        return any(each.is_under_way for each in self._loading.values())

    def shard(self, index: int) -> AnyShard:
        """Raises what a client is told if there is none."""
        found = self._loaded.get(index)
        if found is not None:
            return found[1]
        loading = self._loading.get(index)
        raise NotCoordinator() if loading is None else loading.failure

    def when_loaded(self, index: int, act: Callable[[AnyShard], None]) -> None:
        """At once, if it is; never, if it will not be."""
        found, loading = self._loaded.get(index), self._loading.get(index)
        if found is not None:
            act(found[1])
        elif loading is not None and loading.is_under_way:
            loading.afterwards.append(act)

    def after_loading(self, act: Callable[[AnyShard], None]) -> None:
        """To each that is being loaded, once it is and before anybody else asks it."""
        for loading in self._loading.values():
            if loading.is_under_way:
                loading.afterwards.append(act)

    # What the controller says

    def leads(self, partition: Partition) -> None:
        """This broker leads the partition, perhaps since long ago."""
        index = partition.topic_partition.partition
        known = self._loaded.get(index)
        if known is not None:
            if known[0] is partition:
                return
            self.leads_no_more(index)
        loading = self._loading.get(index)
        if loading is not None and loading.partition is partition:
            return
        self._load(index, partition)

    def leads_no_more(self, index: int) -> None:
        self._loading.pop(index, None)
        known = self._loaded.pop(index, None)
        if known is not None:
            log.info("Ceasing to coordinate %s-%d", self.topic, index)
            known[1].end()
            self._means.has_dropped()

    def close(self) -> None:
        """The broker stops."""
        shards = list(self)
        self._loading.clear()
        self._loaded.clear()
        for shard in shards:
            shard.end()

    def _load(self, index: int, partition: Partition) -> None:
        own_log = PartitionLog(partition, self._means)
        if partition.log.end_offset == partition.log.start_offset:
            shard = self._new_shard(own_log)  # as all are of a topic that is new
            self._loaded[index] = partition, shard
            shard.begin()
            return
        loading = self._loading[index] = Loading[AnyShard](partition)
        self._means.start(
            self._read_and_apply(index, loading, own_log), f"loading {self.topic}-{index}"
        )

    async def _read_and_apply(
        self, index: int, loading: Loading[AnyShard], own_log: PartitionLog
    ) -> None:
        shard, is_loaded = self._new_shard(own_log), False
        try:
            count = await _apply(await own_log.replayed(), shard)
            if self._waits_for_replicas:
                await own_log.wait_for_all_in_sync()
            if self._loading.get(index) is not loading:
                return  # leadership has gone meanwhile
            shard.begin()
            for act in loading.afterwards:
                act(shard)
            is_loaded = True
        except (KafkaError, DecodeError) as failure:
            if self._loading.get(index) is loading:
                log.error("%s-%d cannot be loaded: %s", self.topic, index, failure)
        finally:
            # Whatever it was: what nobody has foreseen is logged by whoever watches this task.
            if not is_loaded:
                loading.failure = NotCoordinator(f"{self.topic}-{index} cannot be loaded")
                shard.end()
        if is_loaded:
            del self._loading[index]
            self._loaded[index] = loading.partition, shard
            self._means.has_loaded()
            log.info("Coordinating %s-%d: %d records", self.topic, index, count)


async def _apply(replay: Replay, shard: Shard) -> int:
    turn, count = Turn(), 0
    for offset, key, value in replay.records():
        shard.apply(key, value, offset)
        count += 1
        if turn.is_over:
            await turn.next()
    for producer_id, (offset, key, value) in replay.pending():
        shard.apply_pending(producer_id, key, value, offset)
        count += 1
        if turn.is_over:
            await turn.next()
    return count
