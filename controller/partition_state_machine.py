"""Changes the states of partitions.  Kafka: ZkPartitionStateMachine.

Each transition changes the store first, then the controller context, then the request batch.

    NEW                     the partition has replicas; nothing is written
    NEW -> ONLINE           the first live replica becomes the leader, all live replicas the ISR
    ONLINE -> ONLINE,
    OFFLINE -> ONLINE       a leader is elected by one of four strategies: see leader_election.py
    OFFLINE, NON_EXISTENT   only the state in the context changes

A transition that the table of valid transitions does not contain is rejected and logged.  A failed
partition keeps its state; the other partitions still change.  This module sends nothing: it adds
the requests for the brokers to the ControllerBrokerRequestBatch.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from odradek.controller.controller_context import ControllerContext
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.leader_and_isr_updater import (
    LeaderAndIsrByPartition,
    LeaderAndIsrUpdater,
    StateChangeFailed,
    log_failures,
)
from odradek.controller.leader_election import (
    LeaderCandidates,
    PartitionLeaderElectionStrategy,
    elect_leader,
    no_leader_reason,
)
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.partition_state import VALID_TRANSITIONS, PartitionState
from odradek.controller.request_batch import ControllerBrokerRequestBatch
from odradek.protocol.types import TopicPartition

log = logging.getLogger("state.change.logger")

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"

#: For each partition that should become ONLINE: its new leader and ISR, or the error.
StateChangeResults = dict[TopicPartition, LeaderIsrAndControllerEpoch | StateChangeFailed]


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """The cluster-wide settings for leader elections."""

    #: The default for topics without their own setting.  It is dynamic, so each election reads it.
    allows_unclean: Callable[[], bool]
    #: Whether all brokers understand the leader recovery state after an unclean election (KIP-704).
    is_leader_recovery_supported: bool = True


class PartitionStateMachine:
    """Changes the states of partitions.  Invariant: no other class does."""

    def __init__(
        self,
        context: ControllerContext,
        reader: MetadataReader,
        writer: MetadataWriter,
        request_batch: ControllerBrokerRequestBatch,
        rules: ElectionRules,
    ) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer
        self._request_batch = request_batch
        self._rules = rules
        self._leader_and_isr_updater = LeaderAndIsrUpdater(context, reader, writer)

    async def start(self) -> StateChangeResults:
        """Set the initial state of all partitions, and elect leaders for those without one."""
        for partition in self._context.partitions:
            self._context.put_partition_state(partition, self._initial_state(partition))
        return await self.trigger_online_partition_state_change()

    async def trigger_online_partition_state_change(
        self, topic: str | None = None
    ) -> StateChangeResults:
        """Elect leaders for NEW and OFFLINE partitions of one topic, or of all topics.

        Topics that are being deleted are skipped.
        """
        waiting = [
            partition
            for partition in self._context.new_or_offline_partitions
            if partition.topic not in self._context.topics_to_be_deleted
            and topic in (None, partition.topic)
        ]
        return await self.handle_state_changes(
            waiting, PartitionState.ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
        )

    async def handle_state_changes(
        self,
        partitions: Iterable[TopicPartition],
        target_state: PartitionState,
        strategy: PartitionLeaderElectionStrategy | None = None,
        *,
        allows_unclean: bool = False,
    ) -> StateChangeResults:
        """Change partitions to a state.

        ``strategy`` is required for a partition that is not NEW and should become ONLINE.
        ``allows_unclean`` overrides the topics' unclean.leader.election.enable.

        Returns the invalid transitions and, for ONLINE, the new leadership or the error of each
        partition.
        """
        valid, results = self._check_valid_state_changes(partitions, target_state)
        if target_state is PartitionState.ONLINE:
            new = [each for each in valid if self._state(each) is PartitionState.NEW]
            others = [each for each in valid if self._state(each) is not PartitionState.NEW]
            results |= await self._initialize_leader_and_isr(new)
            if others:
                assert strategy is not None, others
                results |= await self._elect_leaders(others, strategy, allows_unclean)
        else:
            for partition in valid:
                self._context.put_partition_state(partition, target_state)
        failed = {
            each: result
            for each, result in results.items()
            if isinstance(result, StateChangeFailed)
        }
        log_failures(log, f"Failed to change partitions to {target_state.name}", failed)
        return results

    def _check_valid_state_changes(
        self, partitions: Iterable[TopicPartition], target_state: PartitionState
    ) -> tuple[list[TopicPartition], StateChangeResults]:
        valid: list[TopicPartition] = []
        invalid: StateChangeResults = {}
        for partition in dict.fromkeys(partitions):
            state = self._state(partition)
            if target_state in VALID_TRANSITIONS[state]:
                valid.append(partition)
            else:
                invalid[partition] = StateChangeFailed(f"illegal state change from {state.name}")
        return valid, invalid

    def _state(self, partition: TopicPartition) -> PartitionState:
        return self._context.partition_state(partition)

    def _initial_state(self, partition: TopicPartition) -> PartitionState:
        leader = self._context.leader(partition)
        if leader is None:
            return PartitionState.NEW
        is_leader_online = self._context.is_replica_online(leader, partition)
        return PartitionState.ONLINE if is_leader_online else PartitionState.OFFLINE

    # New partitions

    async def _initialize_leader_and_isr(
        self, partitions: Iterable[TopicPartition]
    ) -> StateChangeResults:
        live_replicas = {each: tuple(self._context.online_replicas(each)) for each in partitions}
        epoch = self._context.epoch
        initial = {
            partition: LeaderIsrAndControllerEpoch(
                isr[0], 0, isr, controller_epoch=epoch, partition_epoch=0
            )
            for partition, isr in live_replicas.items()
            if isr
        }
        created = await self._writer.create_topic_partition_states(initial)
        for partition, leadership in created.finished.items():
            self._context.partition_leadership_info[partition] = leadership
            self._context.put_partition_state(partition, PartitionState.ONLINE)
            self._request_batch.add_leader_and_isr_request(leadership.isr, partition, is_new=True)
        return {
            **{
                each: StateChangeFailed("no replica is alive")
                for each in live_replicas
                if not live_replicas[each]
            },
            **{each: StateChangeFailed(repr(error)) for each, error in created.failed.items()},
            **created.finished,
        }

    # Elections

    async def _elect_leaders(
        self,
        partitions: Iterable[TopicPartition],
        strategy: PartitionLeaderElectionStrategy,
        allows_unclean: bool,
    ) -> StateChangeResults:
        unclean: dict[TopicPartition, bool] = {}

        async def decide(current: LeaderAndIsrByPartition) -> LeaderAndIsrByPartition:
            topics = await self._topics_allowing_unclean(current, strategy, allows_unclean)
            decided = {}
            for partition, leadership in current.items():
                new = self._elect_leader(partition, leadership, strategy, partition.topic in topics)
                if new is not None:
                    decided[partition] = new
                    unclean[partition] = new.leader not in leadership.isr
            return decided

        changes = await self._leader_and_isr_updater.update(partitions, decide)
        for partition, leadership in changes.finished.items():
            if unclean[partition]:
                _log_unclean_election(partition, leadership)
            self._context.put_partition_state(partition, PartitionState.ONLINE)
            self._request_batch.add_leader_and_isr_request(
                self._recipients(partition, strategy), partition
            )
        not_elected = {
            each: StateChangeFailed(no_leader_reason(self._leader_candidates(each), strategy))
            for each in changes.undecided
        }
        return {
            **{each: StateChangeFailed(repr(error)) for each, error in changes.failed.items()},
            **not_elected,
            **changes.finished,
        }

    def _elect_leader(
        self,
        partition: TopicPartition,
        current: LeaderIsrAndControllerEpoch,
        strategy: PartitionLeaderElectionStrategy,
        allows_unclean: bool,
    ) -> LeaderIsrAndControllerEpoch | None:
        new = elect_leader(
            current, self._leader_candidates(partition, allows_unclean=allows_unclean), strategy
        )
        if new is not None and not self._rules.is_leader_recovery_supported:
            return replace(new, is_recovering=current.is_recovering)
        return new

    def _leader_candidates(
        self, partition: TopicPartition, *, allows_unclean: bool = False
    ) -> LeaderCandidates:
        return LeaderCandidates(
            self._context.assignment(partition),
            live_replicas=self._context.online_replicas(partition),
            shutting_down_brokers=self._context.shutting_down_broker_ids,
            allows_unclean=allows_unclean,
        )

    async def _topics_allowing_unclean(
        self,
        current: LeaderAndIsrByPartition,
        strategy: PartitionLeaderElectionStrategy,
        allows_unclean: bool,
    ) -> set[str]:
        """Return the topics that allow an unclean election.

        Reads the configuration only of topics with a partition whose ISR is entirely offline.
        """
        if strategy is not PartitionLeaderElectionStrategy.OFFLINE_PARTITION:
            return set()
        topics = {
            partition.topic
            for partition, leadership in current.items()
            if not any(self._context.is_replica_online(each, partition) for each in leadership.isr)
        }
        if allows_unclean or not topics:
            return topics
        configs = await self._reader.get_topic_configs(sorted(topics))
        default = str(self._rules.allows_unclean())
        values = {
            each: configs.get(each, {}).get(UNCLEAN_LEADER_ELECTION_ENABLE) for each in topics
        }
        return {
            topic
            for topic, value in values.items()
            if (default if value is None else value).strip().lower() == "true"
        }

    def _recipients(
        self, partition: TopicPartition, strategy: PartitionLeaderElectionStrategy
    ) -> Iterable[int]:
        assignment = self._context.assignment(partition)
        match strategy:
            case PartitionLeaderElectionStrategy.OFFLINE_PARTITION:
                return self._context.online_replicas(partition)
            case PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN:
                replicas = assignment.replicas
                return [
                    each
                    for each in replicas
                    if self._context.is_replica_online_or_shutting_down(each, partition)
                ]
            case PartitionLeaderElectionStrategy.REASSIGN_PARTITION:
                return assignment.target_replicas
            case PartitionLeaderElectionStrategy.PREFERRED_REPLICA:
                return assignment.replicas


def _log_unclean_election(
    partition: TopicPartition, leader_and_isr: LeaderIsrAndControllerEpoch
) -> None:
    log.warning(
        "Unclean leader election for partition %s: broker %d was not in the ISR; "
        "records may be lost",
        partition,
        leader_and_isr.leader,
    )
