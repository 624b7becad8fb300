"""All partitions of this broker; makes them leaders or followers and stops them.

Kafka: ReplicaManager.

A partition has one of three states:

    online    it has a log in an online directory
    offline   its directory has failed; KAFKA_STORAGE_ERROR until the broker restarts
    unknown   no LeaderAndIsr request has assigned it to this broker: NOT_LEADER_OR_FOLLOWER if the
              metadata cache has the partition, else UNKNOWN_TOPIC_OR_PARTITION

State changes are made at once on the event loop.  The blocking part of deletions follows on disk
threads.

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

log = logging.getLogger("kafka.server")

#: Leader epochs that StopReplica does not compare: none sent, and "the topic is being deleted".
UNCHECKED_EPOCHS = frozenset({-1, -2})


class ClusterMetadata(Protocol):
    """The part of the metadata cache for partitions that are not on this broker."""

    def has_partition(self, topic: str, partition: int) -> bool: ...


class LogMaintenance(Protocol):
    """Pauses compaction and retention, deletes and flushes logs."""

    async def abort_and_pause_cleaning(self, partition: TopicPartition, /) -> None: ...

    def resume_cleaning(self, partition: TopicPartition, /) -> None: ...

    async def rename_deleted_logs(self) -> None: ...

    async def execute(self, task: DiskTask, /) -> None: ...


class AlterLogDirsManager(Protocol):
    """Moves between log directories; see replica_alter_log_dirs_manager.py."""

    @property
    def preferred_log_dirs(self) -> dict[TopicPartition, LogDirectory]: ...

    def resume(self, partition: TopicPartition, /) -> None: ...


class FetcherManager(Protocol):
    """Fetches the followed partitions; see replica_fetcher_manager.py."""

    def add_partition(self, partition: Partition, /) -> None: ...

    def remove_partition(self, partition: TopicPartition, /) -> None: ...


class LeadershipListener(Protocol):
    """A coordinator, which is notified of leadership changes in its internal topic."""

    def on_election(self, partition: Partition, /) -> None: ...

    def on_resignation(self, index: int, /) -> None: ...


class ReplicaManager:
    """All partitions that this broker leads or follows."""

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
        #: The keys are TopicPartitions; the type allows a lookup by a plain tuple.
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline_partitions: set[TopicPartition] = set()
        #: Partitions whose log is missing though this broker was in sync; assigned_partitions.py.
        self.lost_partitions: set[TopicPartition] = set()
        #: Set after construction, because they need the replica manager.
        self.alter_log_dirs_manager: AlterLogDirsManager | None = None
        self.isr_manager: IsrManager | None = None
        self.replica_fetcher_manager: FetcherManager | None = None
        #: The listeners by topic.
        self.leadership_listeners: dict[str, LeadershipListener] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition, whatever its role; raise the error for the client if none."""
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
        """Whether the partition has a log here, online or offline."""
        return partition in self._partitions or partition in self._offline_partitions

    async def maybe_shrink_isr(self) -> None:
        """Check the followers of all partitions that this broker leads."""
        time_slice = TimeSlice()
        for partition in [*self]:
            partition.maybe_shrink_isr()
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()

    # Requests of the controller

    def become_leader_or_follower(
        self, partition: TopicPartition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> Partition:
        """Lead or follow; raises if the request is stale or has another topic id."""
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
        """Return the partition with its log; a leader's log has the new leader epoch."""
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
        """Raise if there is a future log without a current log.

        The future log may be the only remaining data.  A leader with a new, empty log would
        truncate it.  A follower gets all records from its leader, and a re-created topic does not
        need the old data.
        """
        future_log = self.log_manager.find_future(partition)
        if future_log is None or partition in self.log_manager.logs.current:
            return
        if future_log.topic_id is None or topic_id in (None, future_log.topic_id):
            directory = future_log.log.directory
            log.error(
                "Cannot lead partition %s: it has no current log, and %s is a future log of it",
                partition,
                directory,
            )
            raise KafkaStorageError(
                f"{directory} is a future log of {partition}, which has no current log"
            )

    def _check_not_lost(self, partition: TopicPartition, state: LeaderAndIsrPartitionState) -> None:
        """Raise, because the log is lost and other replicas may have its records.

        Does not raise if another broker leads, the partition is new or the election was unclean.
        Without a leader no log is created either, because it would hide the loss.
        """
        is_led_elsewhere = state.leader not in (self.broker_id, NO_LEADER)
        if is_led_elsewhere or state.is_new or state.leader_recovery_state:
            return
        if not self.log_manager.directories.offline:
            log.error(
                "Cannot lead partition %s: its log is lost, and other replicas may have its "
                "records. To elect one of them run: odradek leaders elect --type unclean; then "
                "restart this broker",
                partition,
            )
        raise KafkaStorageError(f"the log of {partition} is lost, or in a directory that failed")

    def _resign_leadership(self, partition: Partition | None, error: KafkaError) -> None:
        """Stop leading: the epoch is over for all other brokers."""
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
        """Stop serving the partition.

        With ``is_deleted`` it is also removed, and ``delete`` must follow.
        """
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
        """Drop a replica that was reassigned while this broker was disconnected.

        Also drop a replica whose topic was deleted and re-created meanwhile, because leader epochs
        of two topics cannot be compared.  The log is kept: a StopReplica request may follow and
        delete it, or the partition may be assigned to this broker again.
        """
        known = self._partitions.get(partition)
        if known is None:
            return
        if _has_other_topic_id(known, topic_id):
            log.warning(
                "Dropping partition %s with topic id %s: its topic was deleted",
                partition,
                known.topic_id,
            )
            self._drop(known, NotLeaderOrFollower(f"{partition} belongs to another topic id now"))
        elif self.broker_id not in state.replicas and state.leader_epoch > known.leader_epoch:
            log.info(
                "Dropping partition %s: it was reassigned to brokers %s", partition, state.replicas
            )
            self._drop(
                known,
                NotLeaderOrFollower(f"{partition} is no longer on broker {self.broker_id}"),
            )

    def _drop(self, partition: Partition, error: NotLeaderOrFollower) -> None:
        self._stop_fetching(partition.topic_partition)
        partition.stop(error)
        self._notify_leadership(partition)
        del self._partitions[partition.topic_partition]

    async def delete(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError]:
        """Delete the logs of stopped partitions; return the errors by partition.

        On return the directories are renamed; their files are deleted later.
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

    # Disk events

    def handle_log_dir_failure(self, directory: LogDirectory) -> None:
        """Take all partitions of the directory offline."""
        offline = [partition for partition in self if partition.hosted_log.directory is directory]
        for partition in offline:
            key = partition.topic_partition
            del self._partitions[key]
            self._offline_partitions.add(key)
            self._stop_fetching(key)
            partition.stop(KafkaStorageError(f"the log directory of {key} is offline"))
            self._notify_leadership(partition)
        log.error(
            "Stopping serving replicas in dir %s: %d partition(s) are offline",
            directory.path,
            len(offline),
        )

    def on_log_replaced(self, partition: TopicPartition, hosted_log: HostedLog) -> None:
        """Use the new log of a partition, which was moved or opened again."""
        known = self._partitions.get(partition)
        if known is not None:
            known.set_log(hosted_log)
            known.notify_watchers()

    def notify_watchers(self, partition: TopicPartition) -> None:
        """Notify the delayed fetches of a partition."""
        known = self._partitions.get(partition)
        if known is not None:
            known.notify_watchers()

    # Flushing

    def _schedule_flush(self, partition: Partition) -> None:
        """Start a flush unless one is running; at its end the partition checks for another."""
        task = partition.hosted_log.flush_task(now_ms=self._now_ms())
        if task is not None:
            self._start_task(self._flush(partition, task), "flush")

    async def _flush(self, partition: Partition, task: DiskTask) -> None:
        """Flush for all present waiters; records appended meanwhile need the next flush."""
        try:
            await self._log_maintenance.execute(task)
        except KafkaError as error:
            partition.flushed_offset.fail_waiters(error)


def _has_other_topic_id(partition: Partition, topic_id: Uuid | None) -> bool:
    """Whether the ids differ; False if either id is unknown."""
    return topic_id is not None and partition.topic_id not in (None, topic_id)
