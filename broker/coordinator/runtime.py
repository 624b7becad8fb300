"""Loads and unloads the coordinator state of the partitions of an internal topic.

Kafka: CoordinatorRuntime; for leadership changes, onElection and onResignation of the coordinators.

    election         read the log in the background, then apply it to a new shard
    log is read      for transactions, wait until all in-sync replicas have it
    while loading    requests receive COORDINATOR_LOAD_IN_PROGRESS
    loaded           the shard serves requests
    resignation      unload and drop the shard; requests receive NOT_COORDINATOR
    loading fails    requests receive NOT_COORDINATOR until the next resignation and election

A shard is the coordinator state of one partition.  A shard survives a new leader epoch if this
broker was the leader all the time, because no other broker can have written to the partition.

Records that were read may still be lost if not all in-sync replicas have them.  The group
coordinator delays the responses that depend on such records.  The transaction coordinator would
take actions that cannot be undone, so its load waits.  The wait lasts until the replicas have
caught up, or until the offline replicas have left the ISR.

A record that cannot be decoded or applied fails the load of its whole partition, as in Kafka: a
coordinator that skipped the record would have a state that differs from the log.

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

log = logging.getLogger("kafka.coordinator")


class CoordinatorShard(Protocol):
    """The coordinator state of one partition."""

    def apply(self, key: bytes, value: bytes, offset: int, /) -> None:
        """Apply a record in effect; raise DecodeError if it cannot be decoded."""

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int, /) -> None:
        """Apply a record that takes effect if the transaction of its producer is committed."""

    def on_loaded(self) -> None:
        """Called when all records have been applied."""

    def on_unloaded(self) -> None:
        """Called when another broker may be the coordinator; fails all waiting requests."""


AnyShard = TypeVar("AnyShard", bound=CoordinatorShard)


class PendingLoad(Generic[AnyShard]):
    """A partition whose log is being loaded, or failed to load."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.error: KafkaError = CoordinatorLoadInProgress()
        #: Callbacks of run_when_loaded and run_after_pending_loads, for events that the log read
        #: may have missed.
        self.loaded_callbacks: list[Callable[[AnyShard], None]] = []

    @property
    def is_in_progress(self) -> bool:
        return isinstance(self.error, CoordinatorLoadInProgress)


class CoordinatorRuntime(Generic[AnyShard]):
    """The shards of one internal topic whose partitions this broker leads."""

    def __init__(
        self,
        topic: str,
        shard_factory: Callable[[CoordinatorPartitionLog], AnyShard],
        context: CoordinatorContext,
        *,
        waits_for_replicas: bool = False,
    ) -> None:
        """With ``waits_for_replicas`` a load completes when all in-sync replicas have the log."""
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
        """Whether a load is in progress; a failed load is not."""
        return any(pending_load.is_in_progress for pending_load in self._pending_loads.values())

    def shard(self, index: int) -> AnyShard:
        """Return the shard; raise the error for the client if it is not loaded."""
        loaded = self._loaded.get(index)
        if loaded is not None:
            return loaded[1]
        pending_load = self._pending_loads.get(index)
        raise NotCoordinator() if pending_load is None else pending_load.error

    def run_when_loaded(self, index: int, callback: Callable[[AnyShard], None]) -> None:
        """Run ``callback`` when the shard is loaded: at once if it is, never if it will not be."""
        loaded, pending_load = self._loaded.get(index), self._pending_loads.get(index)
        if loaded is not None:
            callback(loaded[1])
        elif pending_load is not None and pending_load.is_in_progress:
            pending_load.loaded_callbacks.append(callback)

    def run_after_pending_loads(self, callback: Callable[[AnyShard], None]) -> None:
        """Run ``callback`` for each shard that is loading now, before it serves any request."""
        for pending_load in self._pending_loads.values():
            if pending_load.is_in_progress:
                pending_load.loaded_callbacks.append(callback)

    # Leadership changes

    def on_election(self, partition: Partition) -> None:
        """Load the partition, which this broker leads, unless it is already loaded or loading."""
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
            log.info("Resigned as the coordinator for partition %s-%d", self.topic, index)
            loaded[1].on_unloaded()
            self._context.on_shard_unloaded()

    def close(self) -> None:
        """Unload all shards at shutdown."""
        shards = list(self)
        self._pending_loads.clear()
        self._loaded.clear()
        for shard in shards:
            shard.on_unloaded()

    def _load(self, index: int, partition: Partition) -> None:
        partition_log = CoordinatorPartitionLog(partition, self._context)
        if partition.log.log_end_offset == partition.log.log_start_offset:
            shard = self._shard_factory(partition_log)  # the usual case for a new topic
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
                return  # the broker resigned while it loaded
            shard.on_loaded()
            for callback in pending_load.loaded_callbacks:
                callback(shard)
            is_loaded = True
        except (KafkaError, DecodeError) as error:
            if self._pending_loads.get(index) is pending_load:
                log.error("Failed to load partition %s-%d: %s", self.topic, index, error)
        finally:
            # Any other exception propagates, and the task registry logs it.
            if not is_loaded:
                pending_load.error = NotCoordinator(f"{self.topic}-{index} cannot be loaded")
                shard.on_unloaded()
        if is_loaded:
            del self._pending_loads[index]
            self._loaded[index] = pending_load.partition, shard
            self._context.on_shard_loaded()
            log.info("Finished loading partition %s-%d: %d record(s)", self.topic, index, count)


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
