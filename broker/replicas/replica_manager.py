"""The partitions of this broker: found, led or followed as the controller says, stopped.

A partition is in one of three conditions:

    online    it has a log in a directory that works
    offline   its directory has failed; KAFKA_STORAGE_ERROR until the broker starts again
    unknown   nobody has told us of it: NOT_LEADER if the cluster knows it, else there is none

Deciding is done at once, on the loop; what deletions leave to do sleeps in the kernel and follows.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from odradek.broker.replicas.leader_state import LeaderState
from odradek.broker.replicas.partition import IsrManager, Partition
from odradek.broker.time_slice import TimeSlice
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_manager import LogManager

log = logging.getLogger(__name__)

#: Leader epochs that StopReplica does not compare: not told, and "the topic is being deleted".
UNCHECKED_EPOCHS = frozenset({-1, -2})


class ClusterMetadata(Protocol):
    """What the picture of the cluster tells of partitions that are not here."""

    def has_partition(self, topic: str, partition: int) -> bool: ...


class LogMaintenance(Protocol):
    """Who looks after logs: keeps compaction and retention away, deletes, syncs."""

    async def abort_and_pause_cleaning(self, partition: TopicPartition, /) -> None: ...

    def resume_cleaning(self, partition: TopicPartition, /) -> None: ...

    async def rename_deleted_logs(self) -> None: ...

    async def execute(self, task: DiskTask, /) -> None: ...


class AlterLogDirsManager(Protocol):
    """Moves between log directories; see log_dir_move.py."""

    @property
    def preferred_log_dirs(self) -> dict[TopicPartition, LogDirectory]: ...

    def resume(self, partition: TopicPartition, /) -> None: ...


class FetcherManager(Protocol):
    """Who fetches what this broker follows; see fetchers.py."""

    def add_partition(self, partition: Partition, /) -> None: ...

    def remove_partition(self, partition: TopicPartition, /) -> None: ...


class LeadershipListener(Protocol):
    """Whoever has to know what of a topic this broker leads: the coordinators."""

    def on_election(self, partition: Partition, /) -> None: ...

    def on_resignation(self, index: int, /) -> None: ...


class ReplicaManager:
    """Every partition that this broker leads or follows."""

    def __init__(
        self,
        broker_id: int,
        log_manager: LogManager,
        metadata_cache: ClusterMetadata,
        *,
        log_maintenance: LogMaintenance,
        start_task: Callable[..., object],
        now_ms: Callable[[], int],
    ) -> None:
        self.broker_id = broker_id
        self.log_manager = log_manager
        self._metadata_cache = metadata_cache
        self._log_maintenance = log_maintenance
        self._start_task = start_task
        self._now_ms = now_ms
        #: By TopicPartition; the type allows to look for one without making it.
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline_partitions: set[TopicPartition] = set()
        #: Whose logs this broker alone was in sync with, and has no more (own_partitions.py).
        self.lost_partitions: set[TopicPartition] = set()
        #: Given when they are there, as they need this one.
        self.alter_log_dirs_manager: AlterLogDirsManager | None = None
        self.isr_manager: IsrManager | None = None
        self.replica_fetcher_manager: FetcherManager | None = None
        #: By topic, who is told of roles in it.
        self.leadership_listeners: dict[str, LeadershipListener] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def partition(self, topic: str, index: int) -> Partition:
        """Whatever its role is."""
        hosted_partition = self._partitions.get((topic, index))
        if hosted_partition is not None:
            return hosted_partition
        key = TopicPartition(topic, index)
        if key in self._offline_partitions:
            raise KafkaStorageError(f"the log directory of {key} is offline")
        if self._metadata_cache.has_partition(topic, index):
            raise NotLeaderOrFollower(f"{key} is not on broker {self.broker_id}")
        raise UnknownTopicOrPartition(f"there is no {key}")

    def has_log(self, partition: TopicPartition) -> bool:
        """Whether its log is there, and usable or not."""
        return partition in self._partitions or partition in self._offline_partitions

    async def maybe_shrink_isr(self) -> None:
        """Among the followers of what this broker leads."""
        time_slice = TimeSlice()
        for partition in [*self]:
            partition.maybe_shrink_isr()
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()

    # What the controller says

    def become_leader_or_follower(
        self, partition: TopicPartition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> Partition:
        """Lead or follow; refused if this has been overtaken, or is of another topic."""
        if partition in self._offline_partitions:
            raise KafkaStorageError(f"the log directory of {partition} is offline")
        known = self._partitions.get(partition)
        if known is not None:
            self._check_not_stale(known, topic_id, state)
        if self.broker_id not in state.replicas:
            raise UnknownTopicOrPartition(f"{partition} has no replica on broker {self.broker_id}")
        try:
            known = self._prepare_partition(partition, topic_id, state)
        except KafkaError as error:
            self._resign_leadership(known, error)
            raise
        if state.leader == self.broker_id:
            self._stop_fetching(partition)
            self._make_leader(known, state)
        else:
            known.make_follower(
                state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
            if self.replica_fetcher_manager is not None:
                self.replica_fetcher_manager.add_partition(known)
        self._notify_leadership(known)
        return known

    def _prepare_partition(
        self, partition: TopicPartition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> Partition:
        """With a log, which knows of the epoch if it is led here."""
        if state.leader == self.broker_id and not state.is_new:
            self._check_no_orphaned_future_log(partition, topic_id)
        if partition in self.lost_partitions:
            self._check_not_lost(partition, state)
            self.lost_partitions.discard(partition)
        hosted_log = self._get_or_create_log(partition, topic_id, is_new=state.is_new)
        known = self._partitions.get(partition)
        if known is not None and known.hosted_log is not hosted_log:
            known.stop(NotLeaderOrFollower(f"the log of {partition} was replaced"))
            known = None
        if known is None:
            known = Partition(
                hosted_log, on_flush_due=self._schedule_flush, isr_manager=self.isr_manager
            )
            self._partitions[partition] = known
        if state.leader == self.broker_id:
            with hosted_log as local_log:
                local_log.leader_epoch_cache.assign(
                    state.leader_epoch, start_offset=local_log.log_end_offset
                )
        return known

    def _check_no_orphaned_future_log(
        self, partition: TopicPartition, topic_id: Uuid | None
    ) -> None:
        """It may be all that is left, and would be cut to what a new, empty log has.

        Whoever follows gets all from its leader; of a topic that was made again, nothing is left.
        """
        future_log = self.log_manager.find_future(partition)
        if future_log is None or partition in self.log_manager.logs.current:
            return
        if future_log.topic_id is None or topic_id in (None, future_log.topic_id):
            directory = future_log.log.directory
            log.error(
                "%s is not led: its log is nowhere, and %s is a copy of it", partition, directory
            )
            raise KafkaStorageError(
                f"{directory} is a future log of {partition}, which has no current log"
            )

    def _check_not_lost(self, partition: TopicPartition, state: LeaderAndIsrPartitionState) -> None:
        """What is lost is followed, or led by whoever is to lead what others have not.

        While it has no leader, no log is made either: it would be taken for what was lost.
        """
        is_led_elsewhere = state.leader not in (self.broker_id, NO_LEADER)
        if is_led_elsewhere or state.is_new or state.leader_recovery_state:
            return
        if not self.log_manager.directories.offline:
            log.error(
                "%s is not led: its log is lost, and others may have it. To have one of them lead: "
                "odradek leaders elect --type unclean; then start this broker again",
                partition,
            )
        raise KafkaStorageError(f"the log of {partition} is lost, or in a directory that failed")

    def _resign_leadership(self, partition: Partition | None, error: KafkaError) -> None:
        """It must not go on in an epoch that is over for everybody else."""
        if partition is not None and partition.leader_state is not None:
            partition.stop(error)
            self._notify_leadership(partition)

    def _stop_fetching(self, partition: TopicPartition) -> None:
        if self.replica_fetcher_manager is not None:
            self.replica_fetcher_manager.remove_partition(partition)

    def _notify_leadership(self, partition: Partition) -> None:
        listener = self.leadership_listeners.get(partition.topic_partition.topic)
        if listener is None:
            return
        if partition.leader_state is None:
            listener.on_resignation(partition.topic_partition.partition)
        else:
            listener.on_election(partition)

    def _get_or_create_log(
        self, partition: TopicPartition, topic_id: Uuid | None, *, is_new: bool
    ) -> HostedLog:
        preferred = (
            self.alter_log_dirs_manager.preferred_log_dirs.pop(partition, None)
            if self.alter_log_dirs_manager
            else None
        )
        hosted_log = self.log_manager.get_or_create_log(
            partition,
            topic_id=topic_id,
            directory=preferred,
            is_new=is_new,
            now_ms=self._now_ms(),
        )
        if self.alter_log_dirs_manager:
            self.alter_log_dirs_manager.resume(partition)
        return hosted_log

    def _check_not_stale(
        self, partition: Partition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> None:
        if _has_other_topic_id(partition, topic_id):
            raise InconsistentTopicId(
                f"{partition.topic_partition} has the topic id {partition.topic_id}"
            )
        gains_topic_id = topic_id is not None and partition.topic_id is None
        if state.leader_epoch > partition.leader_epoch or (
            gains_topic_id and state.leader_epoch == partition.leader_epoch
        ):
            return
        raise StaleControllerEpoch(
            f"{partition.topic_partition} already has leader epoch {partition.leader_epoch}; "
            f"the request has leader epoch {state.leader_epoch}"
        )

    def _make_leader(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        leader_state = LeaderState(
            local_broker_id=self.broker_id,
            epoch=state.leader_epoch,
            leader_epoch_start_offset=partition.log.log_end_offset,
            replicas=state.replicas,
            isr=state.isr,
            now_ms=self.isr_manager.now_ms() if self.isr_manager else 0,
        )
        partition.make_leader(leader_state, partition_epoch=state.partition_epoch)

    def stop(self, partition: TopicPartition, *, leader_epoch: int, is_deleted: bool) -> None:
        """No longer serve it; with ``is_deleted`` it is forgotten, and ``delete`` has to follow."""
        if partition in self._offline_partitions:
            raise KafkaStorageError(f"the log directory of {partition} is offline")
        known = self._partitions.get(partition)
        if known is not None:
            if leader_epoch not in UNCHECKED_EPOCHS and leader_epoch < known.leader_epoch:
                raise FencedLeaderEpoch(
                    f"{partition} has leader epoch {known.leader_epoch}; "
                    f"the request has the older epoch {leader_epoch}"
                )
            self._stop_fetching(partition)
            known.stop(NotLeaderOrFollower(f"{partition} was stopped on this broker"))
            self._notify_leadership(known)
            if is_deleted:
                del self._partitions[partition]

    def drop_if_reassigned(
        self, partition: TopicPartition, topic_id: Uuid | None, state: UpdateMetadataPartitionState
    ) -> None:
        """Whoever was away, and not told to stop, leaves it to those who have it in a later epoch.

        So does one whose topic was deleted meanwhile, and made again: epochs of two topics cannot
        be compared.  The log is kept: ``stop`` may follow, which deletes it, or this broker get it
        back.
        """
        known = self._partitions.get(partition)
        if known is None:
            return
        if _has_other_topic_id(known, topic_id):
            log.warning("%s, with the id %s, is of a topic that is gone", partition, known.topic_id)
            self._drop(known, NotLeaderOrFollower(f"{partition} belongs to another topic id now"))
        elif self.broker_id not in state.replicas and state.leader_epoch > known.leader_epoch:
            log.info("%s has been given to brokers %s", partition, state.replicas)
            self._drop(
                known, NotLeaderOrFollower(f"{partition} is no longer on broker {self.broker_id}")
            )

    def _drop(self, partition: Partition, error: NotLeaderOrFollower) -> None:
        self._stop_fetching(partition.topic_partition)
        partition.stop(error)
        self._notify_leadership(partition)
        del self._partitions[partition.topic_partition]

    async def delete(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError]:
        """Delete the logs of partitions that have been stopped; which could not be, and why.

        They are out of the way when this returns; their files go later.
        """
        errors: dict[TopicPartition, KafkaError] = {}
        time_slice = TimeSlice()
        for partition in partitions:
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
            await self._log_maintenance.abort_and_pause_cleaning(partition)
            try:
                self.log_manager.delete(partition)
            except KafkaError as error:
                self._log_maintenance.resume_cleaning(partition)
                errors[partition] = error
        await self._log_maintenance.rename_deleted_logs()
        return errors

    # What the disk says

    def handle_log_dir_failure(self, directory: LogDirectory) -> None:
        """Its partitions are offline from here on."""
        offline = [partition for partition in self if partition.hosted_log.directory is directory]
        for partition in offline:
            key = partition.topic_partition
            del self._partitions[key]
            self._offline_partitions.add(key)
            self._stop_fetching(key)
            partition.stop(KafkaStorageError(f"the log directory of {key} is offline"))
            self._notify_leadership(partition)
        log.error("%s has failed: %d partitions are offline", directory.path, len(offline))

    def on_log_replaced(self, partition: TopicPartition, hosted_log: HostedLog) -> None:
        """Its log is another now: moved to another directory, or opened again."""
        known = self._partitions.get(partition)
        if known is not None:
            known.set_log(hosted_log)
            known.notify_watchers()

    def notify_watchers(self, partition: TopicPartition) -> None:
        """Whoever waits for something in it looks again."""
        known = self._partitions.get(partition)
        if known is not None:
            known.notify_watchers()

    # Syncing

    def _schedule_flush(self, partition: Partition) -> None:
        """Unless one is under way, at whose end the partition looks whether it needs another."""
        task = partition.hosted_log.flush_task(now_ms=self._now_ms())
        if task is not None:
            self._start_task(self._flush(partition, task), "flush")

    async def _flush(self, partition: Partition, task: DiskTask) -> None:
        """Those who wait share it; what was appended meanwhile is in the next."""
        try:
            await self._log_maintenance.execute(task)
        except KafkaError as error:
            partition.flushed_offset.fail_waiters(error)


def _has_other_topic_id(partition: Partition, topic_id: Uuid | None) -> bool:
    """Of the same name; not if either is not known by an id."""
    return topic_id is not None and partition.topic_id not in (None, topic_id)
