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

from odradek.broker.replicas.leader import LeaderRole
from odradek.broker.replicas.partition import InSync, Partition
from odradek.broker.turns import Turn
from odradek.controller.leadership import NO_LEADER
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeader,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_manager import LogManager

log = logging.getLogger(__name__)

#: Leader epochs that StopReplica does not compare: not told, and "the topic is being deleted".
UNCHECKED_EPOCHS = frozenset({-1, -2})


class Cluster(Protocol):
    """What the picture of the cluster tells of partitions that are not here."""

    def has_partition(self, topic: str, partition: int) -> bool: ...


class Care(Protocol):
    """Who looks after logs: keeps compaction and retention away, deletes, syncs."""

    async def hold_off(self, partition: TopicPartition, /) -> None: ...

    def allow(self, partition: TopicPartition, /) -> None: ...

    async def clear_deleted(self) -> None: ...

    async def carry_out(self, work: DiskWork, /) -> None: ...


class Moves(Protocol):
    """Moves between log directories; see log_dir_move.py."""

    @property
    def preferred(self) -> dict[TopicPartition, LogDirectory]: ...

    def resume(self, partition: TopicPartition, /) -> None: ...


class Fetching(Protocol):
    """Who fetches what this broker follows; see fetchers.py."""

    def follow(self, partition: Partition, /) -> None: ...

    def forget(self, partition: TopicPartition, /) -> None: ...


class Roles(Protocol):
    """Whoever has to know what of a topic this broker leads: the coordinators."""

    def leads(self, partition: Partition, /) -> None: ...

    def leads_no_more(self, index: int, /) -> None: ...


class ReplicaManager:
    """Every partition that this broker leads or follows."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        cluster: Cluster,
        *,
        care: Care,
        start: Callable[..., object],
        now_ms: Callable[[], int],
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self._cluster = cluster
        self._care = care
        self._start = start
        self._now_ms = now_ms
        #: By TopicPartition; the type allows to look for one without making it.
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: set[TopicPartition] = set()
        #: Whose logs this broker alone was in sync with, and has no more (own_partitions.py).
        self.lost: set[TopicPartition] = set()
        #: Given when they are there, as they need this one.
        self.moves: Moves | None = None
        self.in_sync: InSync | None = None
        self.fetchers: Fetching | None = None
        #: By topic, who is told of roles in it.
        self.roles: dict[str, Roles] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def partition(self, topic: str, index: int) -> Partition:
        """Whatever its role is."""
        found = self._partitions.get((topic, index))
        if found is not None:
            return found
        key = TopicPartition(topic, index)
        if key in self._offline:
            raise KafkaStorageError(f"the log directory of {key} is offline")
        if self._cluster.has_partition(topic, index):
            raise NotLeader(f"{key} is not on broker {self.broker_id}")
        raise UnknownTopicOrPartition(f"there is no {key}")

    def has_log(self, partition: TopicPartition) -> bool:
        """Whether its log is there, and usable or not."""
        return partition in self._partitions or partition in self._offline

    async def look_for_laggards(self) -> None:
        """Among the followers of what this broker leads."""
        turn = Turn()
        for partition in [*self]:
            partition.look_for_laggards()
            if turn.is_over:
                await turn.next()

    # What the controller says

    def become(
        self, partition: TopicPartition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> Partition:
        """Lead or follow; refused if this has been overtaken, or is of another topic."""
        if partition in self._offline:
            raise KafkaStorageError(f"the log directory of {partition} is offline")
        known = self._partitions.get(partition)
        if known is not None:
            self._check_newer(known, topic_id, state)
        if self.broker_id not in state.replicas:
            raise UnknownTopicOrPartition(f"{partition} has no replica on broker {self.broker_id}")
        try:
            known = self._prepared(partition, topic_id, state)
        except KafkaError as failure:
            self._lead_no_more(known, failure)
            raise
        if state.leader == self.broker_id:
            self._fetch_no_more(partition)
            self._lead(known, state)
        else:
            known.follow(
                state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
            if self.fetchers is not None:
                self.fetchers.follow(known)
        self._tell_of_role(known)
        return known

    def _prepared(
        self, partition: TopicPartition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> Partition:
        """With a log, which knows of the epoch if it is led here."""
        if state.leader == self.broker_id and not state.is_new:
            self._check_for_lone_copy(partition, topic_id)
        if partition in self.lost:
            self._check_is_not_lost(partition, state)
            self.lost.discard(partition)
        hosted = self._hosted(partition, topic_id, is_new=state.is_new)
        known = self._partitions.get(partition)
        if known is not None and known.hosted is not hosted:
            known.end(NotLeader(f"the log of {partition} is another now"))
            known = None
        if known is None:
            known = Partition(hosted, on_flush_due=self._flush_due, in_sync=self.in_sync)
            self._partitions[partition] = known
        if state.leader == self.broker_id:
            with hosted as own_log:
                own_log.epochs.assign(state.leader_epoch, start_offset=own_log.end_offset)
        return known

    def _check_for_lone_copy(self, partition: TopicPartition, topic_id: Uuid | None) -> None:
        """It may be all that is left, and would be cut to what a new, empty log has.

        Whoever follows gets all from its leader; of a topic that was made again, nothing is left.
        """
        copy = self.logs.find_future(partition)
        if copy is None or partition in self.logs.logs.current:
            return
        if copy.topic_id is None or topic_id in (None, copy.topic_id):
            where = copy.log.directory
            log.error("%s is not led: its log is nowhere, and %s is a copy of it", partition, where)
            raise KafkaStorageError(f"{where} is a copy of {partition}, whose log is nowhere")

    def _check_is_not_lost(
        self, partition: TopicPartition, state: LeaderAndIsrPartitionState
    ) -> None:
        """What is lost is followed, or led by whoever is to lead what others have not.

        While it has no leader, no log is made either: it would be taken for what was lost.
        """
        is_others = state.leader not in (self.broker_id, NO_LEADER)
        if is_others or state.is_new or state.leader_recovery_state:
            return
        if not self.logs.directories.offline:
            log.error(
                "%s is not led: its log is lost, and others may have it. To have one of them lead: "
                "odradek leaders elect --type unclean; then start this broker again",
                partition,
            )
        raise KafkaStorageError(f"the log of {partition} is lost, or in a directory that failed")

    def _lead_no_more(self, partition: Partition | None, failure: KafkaError) -> None:
        """It must not go on in an epoch that is over for everybody else."""
        if partition is not None and partition.leader is not None:
            partition.end(failure)
            self._tell_of_role(partition)

    def _fetch_no_more(self, partition: TopicPartition) -> None:
        if self.fetchers is not None:
            self.fetchers.forget(partition)

    def _tell_of_role(self, partition: Partition) -> None:
        roles = self.roles.get(partition.topic_partition.topic)
        if roles is None:
            return
        if partition.leader is None:
            roles.leads_no_more(partition.topic_partition.partition)
        else:
            roles.leads(partition)

    def _hosted(
        self, partition: TopicPartition, topic_id: Uuid | None, *, is_new: bool
    ) -> HostedLog:
        preferred = self.moves.preferred.pop(partition, None) if self.moves else None
        hosted = self.logs.create(
            partition,
            topic_id=topic_id,
            directory=preferred,
            is_new=is_new,
            now_ms=self._now_ms(),
        )
        if self.moves:
            self.moves.resume(partition)
        return hosted

    def _check_newer(
        self, known: Partition, topic_id: Uuid | None, state: LeaderAndIsrPartitionState
    ) -> None:
        if _is_of_another_topic(known, topic_id):
            raise InconsistentTopicId(f"{known.topic_partition} has the id {known.topic_id}")
        gets_its_id = topic_id is not None and known.topic_id is None
        if state.leader_epoch > known.leader_epoch or (
            gets_its_id and state.leader_epoch == known.leader_epoch
        ):
            return
        raise StaleControllerEpoch(
            f"{known.topic_partition} is in leader epoch {known.leader_epoch} already, "
            f"not before {state.leader_epoch}"
        )

    def _lead(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        role = LeaderRole(
            local_id=self.broker_id,
            epoch=state.leader_epoch,
            start_offset=partition.log.end_offset,
            replicas=state.replicas,
            in_sync=state.isr,
            now_ms=self.in_sync.now_ms() if self.in_sync else 0,
        )
        partition.lead(role, partition_epoch=state.partition_epoch)

    def stop(self, partition: TopicPartition, *, leader_epoch: int, is_deleted: bool) -> None:
        """No longer serve it; with ``is_deleted`` it is forgotten, and ``delete`` has to follow."""
        if partition in self._offline:
            raise KafkaStorageError(f"the log directory of {partition} is offline")
        known = self._partitions.get(partition)
        if known is not None:
            if leader_epoch not in UNCHECKED_EPOCHS and leader_epoch < known.leader_epoch:
                raise FencedLeaderEpoch(
                    f"{partition} is in leader epoch {known.leader_epoch}, {leader_epoch} is over"
                )
            self._fetch_no_more(partition)
            known.end(NotLeader(f"{partition} has been stopped here"))
            self._tell_of_role(known)
            if is_deleted:
                del self._partitions[partition]

    def told_of(
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
        if _is_of_another_topic(known, topic_id):
            log.warning("%s, with the id %s, is of a topic that is gone", partition, known.topic_id)
            self._leave(known, NotLeader(f"{partition} is of another topic now"))
        elif self.broker_id not in state.replicas and state.leader_epoch > known.leader_epoch:
            log.info("%s has been given to brokers %s", partition, state.replicas)
            self._leave(known, NotLeader(f"{partition} is not on broker {self.broker_id} any more"))

    def _leave(self, partition: Partition, failure: NotLeader) -> None:
        self._fetch_no_more(partition.topic_partition)
        partition.end(failure)
        self._tell_of_role(partition)
        del self._partitions[partition.topic_partition]

    async def delete(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError]:
        """Delete the logs of partitions that have been stopped; which could not be, and why.

        They are out of the way when this returns; their files go later.
        """
        failures: dict[TopicPartition, KafkaError] = {}
        turn = Turn()
        for partition in partitions:
            if turn.is_over:
                await turn.next()
            await self._care.hold_off(partition)
            try:
                self.logs.delete(partition)
            except KafkaError as failure:
                self._care.allow(partition)
                failures[partition] = failure
        await self._care.clear_deleted()
        return failures

    # What the disk says

    def directory_failed(self, directory: LogDirectory) -> None:
        """Its partitions are offline from here on."""
        gone = [each for each in self if each.hosted.directory is directory]
        for partition in gone:
            key = partition.topic_partition
            del self._partitions[key]
            self._offline.add(key)
            self._fetch_no_more(key)
            partition.end(KafkaStorageError(f"the log directory of {key} is offline"))
            self._tell_of_role(partition)
        log.error("%s has failed: %d partitions are offline", directory.path, len(gone))

    def replaced(self, partition: TopicPartition, hosted: HostedLog) -> None:
        """Its log is another now: moved to another directory, or opened again."""
        known = self._partitions.get(partition)
        if known is not None:
            known.use(hosted)
            known.wake()

    def wake(self, partition: TopicPartition) -> None:
        """Whoever waits for something in it looks again."""
        known = self._partitions.get(partition)
        if known is not None:
            known.wake()

    # Syncing

    def _flush_due(self, partition: Partition) -> None:
        """Unless one is under way, at whose end the partition looks whether it needs another."""
        work = partition.hosted.plan_flush(now_ms=self._now_ms())
        if work is not None:
            self._start(self._flush(partition, work), "flush")

    async def _flush(self, partition: Partition, work: DiskWork) -> None:
        """Those who wait share it; what was appended meanwhile is in the next."""
        try:
            await self._care.carry_out(work)
        except KafkaError as failure:
            partition.synced.abandon(failure)


def _is_of_another_topic(partition: Partition, topic_id: Uuid | None) -> bool:
    """Of the same name; not if either is not known by an id."""
    return topic_id is not None and partition.topic_id not in (None, topic_id)
