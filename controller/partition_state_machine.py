"""Moves partitions from state to state: the store first, then the context, then the brokers.

    NEW                     it has replicas; nothing is written
    NEW -> ONLINE           its first replica that is alive leads, all that are alive are in sync
    ONLINE -> ONLINE,
    OFFLINE -> ONLINE       a leader is elected, on one of four occasions: see leader_election.py
    OFFLINE, NON_EXISTENT   only noted

What the table of moves does not have is refused and logged.  A partition that cannot be moved stays
where it is; others are moved all the same.  Nothing is sent here: what brokers are to be told is in
the batch.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from odradek.controller.context import Context
from odradek.controller.leader_election import Candidates, Occasion, elected, why_nobody
from odradek.controller.leadership import Leadership
from odradek.controller.leadership_changes import (
    LeadershipChanges,
    Leaderships,
    StateChangeFailed,
    log_failures,
)
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.metadata_writes import MetadataWrites
from odradek.controller.partition_state import MOVES, PartitionState
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

#: For each partition that was to be led, by whom, or why not.
Elections = dict[TopicPartition, Leadership | StateChangeFailed]


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """What the cluster's settings say of elections."""

    #: Of topics that say nothing themselves; asked each time, since it may change.
    allows_unclean: Callable[[], bool]
    #: Whether brokers know what a leader after an unclean election is (KIP-704).
    marks_recovering: bool = True


class PartitionMachine:
    """The only one to change partitions' states."""

    def __init__(
        self,
        context: Context,
        reads: MetadataReads,
        writes: MetadataWrites,
        batch: RequestBatch,
        rules: ElectionRules,
    ) -> None:
        self._context = context
        self._reads = reads
        self._writes = writes
        self._batch = batch
        self._rules = rules
        self._changes = LeadershipChanges(context, reads, writes)

    async def start(self) -> Elections:
        """Find out what state all partitions are in, and elect leaders for those without."""
        for partition in self._context.partitions:
            self._context.move_partition(partition, self._found_state(partition))
        return await self.elect_missing()

    async def elect_missing(self, topic: str | None = None) -> Elections:
        """Try again for whatever waits for a leader: of one topic, or of all that are to stay."""
        waiting = [
            partition
            for partition in self._context.waiting_for_leader
            if partition.topic not in self._context.to_delete and topic in (None, partition.topic)
        ]
        return await self.move(waiting, PartitionState.ONLINE, Occasion.OFFLINE)

    async def move(
        self,
        partitions: Iterable[TopicPartition],
        target: PartitionState,
        occasion: Occasion | None = None,
        *,
        allows_unclean: bool = False,
    ) -> Elections:
        """``occasion`` is needed to be ONLINE again; ``allows_unclean`` overrides what topics say.

        Of moves to ONLINE, tells who leads or why nobody does.
        """
        legal, results = self._legal(partitions, target)
        if target is PartitionState.ONLINE:
            new = [each for each in legal if self._state(each) is PartitionState.NEW]
            others = [each for each in legal if self._state(each) is not PartitionState.NEW]
            results |= await self._initialise(new)
            if others:
                assert occasion is not None, others
                results |= await self._elect(others, occasion, allows_unclean)
        else:
            for partition in legal:
                self._context.move_partition(partition, target)
        failed = {each: why for each, why in results.items() if isinstance(why, StateChangeFailed)}
        log_failures(log, f"Partitions do not become {target.name}", failed)
        return results

    def _legal(
        self, partitions: Iterable[TopicPartition], target: PartitionState
    ) -> tuple[list[TopicPartition], Elections]:
        legal: list[TopicPartition] = []
        refused: Elections = {}
        for partition in dict.fromkeys(partitions):
            state = self._state(partition)
            if target in MOVES[state]:
                legal.append(partition)
            else:
                refused[partition] = StateChangeFailed(f"illegal, it is {state.name}")
        return legal, refused

    def _state(self, partition: TopicPartition) -> PartitionState:
        return self._context.partition_state(partition)

    def _found_state(self, partition: TopicPartition) -> PartitionState:
        leader = self._context.leader(partition)
        if leader is None:
            return PartitionState.NEW
        is_led = self._context.is_online(leader, partition)
        return PartitionState.ONLINE if is_led else PartitionState.OFFLINE

    # New partitions

    async def _initialise(self, partitions: Iterable[TopicPartition]) -> Elections:
        alive = {each: tuple(self._context.online_replicas(each)) for each in partitions}
        epoch = self._context.epoch
        first = {
            partition: Leadership(isr[0], 0, isr, controller_epoch=epoch, partition_epoch=0)
            for partition, isr in alive.items()
            if isr
        }
        written = await self._writes.create_leaderships(first)
        for partition, leadership in written.done.items():
            self._context.leaderships[partition] = leadership
            self._context.move_partition(partition, PartitionState.ONLINE)
            self._batch.leader_and_isr(leadership.isr, partition, is_new=True)
        return {
            **{each: StateChangeFailed("no replica is alive") for each in alive if not alive[each]},
            **{each: StateChangeFailed(repr(why)) for each, why in written.failed.items()},
            **written.done,
        }

    # Elections

    async def _elect(
        self, partitions: Iterable[TopicPartition], occasion: Occasion, allows_unclean: bool
    ) -> Elections:
        unclean: dict[TopicPartition, bool] = {}

        async def decide(current: Leaderships) -> Leaderships:
            topics = await self._allowing_unclean(current, occasion, allows_unclean)
            decided = {}
            for partition, leadership in current.items():
                new = self._elected(partition, leadership, occasion, partition.topic in topics)
                if new is not None:
                    decided[partition] = new
                    unclean[partition] = new.leader not in leadership.isr
            return decided

        changes = await self._changes.make(partitions, decide)
        for partition, leadership in changes.done.items():
            if unclean[partition]:
                _log_unclean(partition, leadership)
            self._context.move_partition(partition, PartitionState.ONLINE)
            self._batch.leader_and_isr(self._recipients(partition, occasion), partition)
        nobody = {
            each: StateChangeFailed(why_nobody(self._candidates(each), occasion))
            for each in changes.undecided
        }
        return {
            **{each: StateChangeFailed(repr(why)) for each, why in changes.failed.items()},
            **nobody,
            **changes.done,
        }

    def _elected(
        self,
        partition: TopicPartition,
        current: Leadership,
        occasion: Occasion,
        allows_unclean: bool,
    ) -> Leadership | None:
        new = elected(current, self._candidates(partition, allows_unclean=allows_unclean), occasion)
        if new is not None and not self._rules.marks_recovering:
            return replace(new, is_recovering=current.is_recovering)
        return new

    def _candidates(self, partition: TopicPartition, *, allows_unclean: bool = False) -> Candidates:
        return Candidates(
            self._context.assignment(partition),
            online=self._context.online_replicas(partition),
            shutting_down=self._context.shutting_down,
            allows_unclean=allows_unclean,
        )

    async def _allowing_unclean(
        self, current: Leaderships, occasion: Occasion, allows_unclean: bool
    ) -> set[str]:
        """Topics; asked only of those where it matters."""
        if occasion is not Occasion.OFFLINE:
            return set()
        topics = {
            partition.topic
            for partition, leadership in current.items()
            if not any(self._context.is_online(each, partition) for each in leadership.isr)
        }
        if allows_unclean or not topics:
            return topics
        configs = await self._reads.topic_configs(sorted(topics))
        default = str(self._rules.allows_unclean())
        values = {each: configs.get(each, {}).get(UNCLEAN_LEADER_ELECTION) for each in topics}
        return {
            topic
            for topic, value in values.items()
            if (default if value is None else value).strip().lower() == "true"
        }

    def _recipients(self, partition: TopicPartition, occasion: Occasion) -> Iterable[int]:
        assignment = self._context.assignment(partition)
        match occasion:
            case Occasion.OFFLINE:
                return self._context.online_replicas(partition)
            case Occasion.CONTROLLED_SHUTDOWN:
                replicas = assignment.replicas
                return [each for each in replicas if self._context.is_reachable(each, partition)]
            case Occasion.REASSIGNMENT:
                return assignment.target
            case Occasion.PREFERRED:
                return assignment.replicas


def _log_unclean(partition: TopicPartition, leadership: Leadership) -> None:
    log.warning(
        "Partition %s is led by %d, which was not in sync: records may be lost",
        partition,
        leadership.leader,
    )
