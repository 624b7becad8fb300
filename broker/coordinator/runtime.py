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

from odradek.broker.coordinator.partition_log import CoordinatorContext, CoordinatorPartitionLog
from odradek.broker.coordinator.replay import Replay
from odradek.broker.replicas.partition import Partition
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    DecodeError,
    KafkaError,
    NotCoordinator,
)

log = logging.getLogger(__name__)


class CoordinatorShard(Protocol):
    """The state that one partition holds."""

    def apply(self, key: bytes, value: bytes, offset: int, /) -> None:
        """A record that counts; raises DecodeError if nobody can read it."""

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int, /) -> None:
        """A record that will count if its producer's transaction is committed."""

    def on_loaded(self) -> None:
        """All has been applied."""

    def on_unloaded(self) -> None:
        """Another may be coordinator from here on: whoever waits is told."""


AnyShard = TypeVar("AnyShard", bound=CoordinatorShard)


class PendingLoad(Generic[AnyShard]):
    """A partition whose log is being read, or could not be."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.error: KafkaError = CoordinatorLoadInProgress()
        #: What happened too late to be read: see Shards.when_loaded and after_loading.
        self.loaded_callbacks: list[Callable[[AnyShard], None]] = []

    @property
    def is_in_progress(self) -> bool:
        return isinstance(self.error, CoordinatorLoadInProgress)


class CoordinatorRuntime(Generic[AnyShard]):
    """The partitions of one internal topic that this broker leads."""

    def __init__(
        self,
        topic: str,
        shard_factory: Callable[[CoordinatorPartitionLog], AnyShard],
        context: CoordinatorContext,
        *,
        waits_for_replicas: bool = False,
    ) -> None:
        """``waits_for_replicas`` to have what a shard is made of before that begins."""
        self.topic = topic
        self._waits_for_replicas = waits_for_replicas
        self._shard_factory = shard_factory
        self._context = context
        self._pending_loads: dict[int, PendingLoad[AnyShard]] = {}
        self._loaded: dict[int, tuple[Partition, AnyShard]] = {}

    def __iter__(self) -> Iterator[AnyShard]:
        return iter([shard for _, shard in self._loaded.values()])

    @property
    def is_loading(self) -> bool:
        """What could not be loaded is not being loaded any more."""
        return any(pending_load.is_in_progress for pending_load in self._pending_loads.values())

    def shard(self, index: int) -> AnyShard:
        """Raises what a client is told if there is none."""
        loaded = self._loaded.get(index)
        if loaded is not None:
            return loaded[1]
        pending_load = self._pending_loads.get(index)
        raise NotCoordinator() if pending_load is None else pending_load.error

    def run_when_loaded(self, index: int, callback: Callable[[AnyShard], None]) -> None:
        """At once, if it is; never, if it will not be."""
        loaded, pending_load = self._loaded.get(index), self._pending_loads.get(index)
        if loaded is not None:
            callback(loaded[1])
        elif pending_load is not None and pending_load.is_in_progress:
            pending_load.loaded_callbacks.append(callback)

    def run_after_pending_loads(self, callback: Callable[[AnyShard], None]) -> None:
        """To each that is being loaded, once it is and before anybody else asks it."""
        for pending_load in self._pending_loads.values():
            if pending_load.is_in_progress:
                pending_load.loaded_callbacks.append(callback)

    # What the controller says

    def on_election(self, partition: Partition) -> None:
        """This broker leads the partition, perhaps since long ago."""
        index = partition.topic_partition.partition
        loaded = self._loaded.get(index)
        if loaded is not None:
            if loaded[0] is partition:
                return
            self.on_resignation(index)
        pending_load = self._pending_loads.get(index)
        if pending_load is not None and pending_load.partition is partition:
            return
        self._load(index, partition)

    def on_resignation(self, index: int) -> None:
        self._pending_loads.pop(index, None)
        loaded = self._loaded.pop(index, None)
        if loaded is not None:
            log.info("Ceasing to coordinate %s-%d", self.topic, index)
            loaded[1].on_unloaded()
            self._context.on_shard_unloaded()

    def close(self) -> None:
        """The broker stops."""
        shards = list(self)
        self._pending_loads.clear()
        self._loaded.clear()
        for shard in shards:
            shard.on_unloaded()

    def _load(self, index: int, partition: Partition) -> None:
        partition_log = CoordinatorPartitionLog(partition, self._context)
        if partition.log.log_end_offset == partition.log.log_start_offset:
            shard = self._shard_factory(partition_log)  # as all are of a topic that is new
            self._loaded[index] = partition, shard
            shard.on_loaded()
            return
        pending_load = self._pending_loads[index] = PendingLoad[AnyShard](partition)
        self._context.start_task(
            self._read_and_apply(index, pending_load, partition_log),
            f"loading {self.topic}-{index}",
        )

    async def _read_and_apply(
        self,
        index: int,
        pending_load: PendingLoad[AnyShard],
        partition_log: CoordinatorPartitionLog,
    ) -> None:
        shard, is_loaded = self._shard_factory(partition_log), False
        try:
            count = await _apply_replay(await partition_log.replay(), shard)
            if self._waits_for_replicas:
                await partition_log.wait_for_isr()
            if self._pending_loads.get(index) is not pending_load:
                return  # leadership has gone meanwhile
            shard.on_loaded()
            for callback in pending_load.loaded_callbacks:
                callback(shard)
            is_loaded = True
        except (KafkaError, DecodeError) as error:
            if self._pending_loads.get(index) is pending_load:
                log.error("%s-%d cannot be loaded: %s", self.topic, index, error)
        finally:
            # Whatever it was: what nobody has foreseen is logged by whoever watches this task.
            if not is_loaded:
                pending_load.error = NotCoordinator(f"{self.topic}-{index} cannot be loaded")
                shard.on_unloaded()
        if is_loaded:
            del self._pending_loads[index]
            self._loaded[index] = pending_load.partition, shard
            self._context.on_shard_loaded()
            log.info("Coordinating %s-%d: %d records", self.topic, index, count)


async def _apply_replay(replay: Replay, shard: CoordinatorShard) -> int:
    time_slice, count = TimeSlice(), 0
    for offset, key, value in replay.records():
        shard.apply(key, value, offset)
        count += 1
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    for producer_id, (offset, key, value) in replay.pending():
        shard.apply_pending(producer_id, key, value, offset)
        count += 1
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return count
