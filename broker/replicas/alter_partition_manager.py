"""Who is in sync with this broker's logs?  Leaders find out, and the controller has to agree.

A leader proposes a change by AlterPartition.  One request is on its way at a time; what is proposed
meanwhile goes together in the next.  Until the controller has answered, a leader proposes nothing
else of the same partition.

    agreed       the partition has the in-sync replicas, and the epoch, that the controller wrote
    overtaken    somebody else leads, or the leader knows less than the controller: it waits until
                 it is told
    ineligible   the follower is not alive, or has begun another life, as the controller knows: it
                 may be proposed again after a while
    otherwise    the controller is asked again, whoever it is by then

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.broker.replicas.leader import LeaderRole
from odradek.broker.replicas.partition import Partition
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.schema import Message
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

log = logging.getLogger(__name__)

Asked = AlterPartitionRequest.Topic.Partition

#: The last by topic names, and the first by which the lives of brokers are told apart.
BY_NAME, BY_ID = 1, 3
RETRY_S = 0.05

_OVERTAKEN = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_INELIGIBLE = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})


class Cluster(Protocol):
    """What is known of the brokers."""

    def is_alive(self, broker: int, /) -> bool: ...


class Controller(Protocol):
    """Whoever it is, asked by the broker of this id; raises KafkaError if it does not answer."""

    @property
    def broker_id(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...

    async def send(self, request: Message, /, *, version: int) -> Message: ...


class Proposal(NamedTuple):
    """Of a leader, for as long as it leads in the same epoch."""

    partition: Partition
    role: LeaderRole
    in_sync: frozenset[int]
    #: In which the followers have come as far as they have: one that has started again since may
    #: have lost what it had, however often this is sent.
    broker_epochs: Mapping[int, int]

    @property
    def is_current(self) -> bool:
        return self.partition.leader is self.role and self.role.proposed == self.in_sync


class InSyncReplicas:
    """Of all partitions that this broker leads."""

    def __init__(
        self,
        cluster: Cluster,
        controller: Controller,
        *,
        lag_max_ms: Callable[[], int],
        now_ms: Callable[[], int],
        start: Callable[[Coroutine[Any, Any, None], str], object],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._controller = controller
        self._lag_max_ms = lag_max_ms
        self.now_ms = now_ms
        self._start = start
        self._sleep = sleep
        self._waiting: dict[TopicPartition, Proposal] = {}
        self._is_asking = False
        #: Why nothing is altered, to say so once.
        self._trouble: str | None = None

    @property
    def lag_max_ms(self) -> int:
        return self._lag_max_ms()

    def is_eligible(self, replica_id: int) -> bool:
        return self._cluster.is_alive(replica_id)

    def propose(self, partition: Partition, in_sync: frozenset[int]) -> None:
        role = partition.leading()
        where = partition.topic_partition
        before, after = sorted(role.in_sync), sorted(in_sync)
        log.info("%s: in sync are %s, and should be %s", where, before, after)
        epochs = {each: self._broker_epoch_of(each, role) for each in in_sync}
        self._waiting[where] = Proposal(partition, role, in_sync, epochs)
        if not self._is_asking:
            self._is_asking = True
            self._start(self._ask_all(), "in-sync replicas")

    def _broker_epoch_of(self, replica_id: int, role: LeaderRole) -> int:
        if replica_id == self._controller.broker_id:
            return self._controller.broker_epoch
        return role.broker_epoch_of(replica_id)

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                proposals, self._waiting = self._waiting, {}
                current = {where: each for where, each in proposals.items() if each.is_current}
                try:
                    again = await self._ask(current)
                except Exception as failure:  # noqa: BLE001 - it is logged, once
                    # Else their leaders would never propose anything again.
                    again = current
                    self._not_yet(repr(failure), failure)
                if again:
                    self._waiting = {**again, **self._waiting}
                    await self._sleep(RETRY_S)
        finally:
            self._is_asking = False

    async def _ask(
        self, proposals: Mapping[TopicPartition, Proposal]
    ) -> dict[TopicPartition, Proposal]:
        """Those that are to be asked again."""
        again: dict[TopicPartition, Proposal] = {}
        for version in (BY_NAME, BY_ID):
            some = {
                where: each
                for where, each in proposals.items()
                if (each.partition.topic_id is not None) == (version == BY_ID)
            }
            if some:
                again |= await self._asked(some, version)
        return again

    async def _asked(
        self, proposals: dict[TopicPartition, Proposal], version: int
    ) -> dict[TopicPartition, Proposal]:
        request = AlterPartitionRequest(
            broker_id=self._controller.broker_id,
            broker_epoch=self._controller.broker_epoch,
            topics=_topics(proposals.values()),
        )
        try:
            response = await self._controller.send(request, version=version)
        except KafkaError as failure:
            self._not_yet(str(failure))
            return proposals
        assert isinstance(response, AlterPartitionResponse), response
        if response.error_code:
            self._not_yet(ErrorCode.of(response.error_code).name)
            return proposals
        left = _unanswered(proposals, response, now_ms=self.now_ms())
        if left:
            self._not_yet(", ".join(sorted(_errors_in(response))))
        else:
            self._trouble = None
        return left

    def _not_yet(self, why: str, failure: Exception | None = None) -> None:
        """Said once for each reason: they are asked for again many times a second."""
        if why != self._trouble:
            self._trouble = why
            level = logging.INFO if failure is None else logging.ERROR
            log.log(level, "In-sync replicas are not altered yet: %s", why, exc_info=failure)


def _topics(proposals: Iterable[Proposal]) -> list[AlterPartitionRequest.Topic]:
    topics: dict[tuple[str, Uuid], list[Asked]] = {}
    for partition, role, in_sync, epochs in proposals:
        topic, number = partition.topic_partition
        line = Asked(
            partition_index=number,
            leader_epoch=role.epoch,
            partition_epoch=partition.partition_epoch,
        )
        if partition.topic_id is None:
            line.new_isr = sorted(in_sync)
        else:
            line.new_isr_with_epochs = [
                Asked.BrokerState(broker_id=each, broker_epoch=epochs[each])
                for each in sorted(in_sync)
            ]
        topics.setdefault((topic, partition.topic_id or ZERO_UUID), []).append(line)
    return [
        AlterPartitionRequest.Topic(topic_name=name, topic_id=topic_id, partitions=lines)
        for (name, topic_id), lines in topics.items()
    ]


def _errors_in(response: AlterPartitionResponse) -> set[str]:
    lines = [line for topic in response.topics for line in topic.partitions]
    return {ErrorCode.of(line.error_code).name for line in lines if line.error_code}


def _unanswered(
    proposals: Mapping[TopicPartition, Proposal], response: AlterPartitionResponse, *, now_ms: int
) -> dict[TopicPartition, Proposal]:
    """Each partition does what it was told; those that were told nothing of use are left."""
    names = {each.partition.topic_id: where.topic for where, each in proposals.items()}
    left = dict(proposals)
    for topic in response.topics:
        name = topic.topic_name or names.get(topic.topic_id, "")
        for line in topic.partitions:
            where = TopicPartition(name, line.partition_index)
            proposal = proposals.get(where)
            if proposal is not None and _is_settled(proposal, line, now_ms=now_ms):
                del left[where]
    return {where: each for where, each in left.items() if each.is_current}


def _is_settled(
    proposal: Proposal, line: AlterPartitionResponse.Topic.Partition, *, now_ms: int
) -> bool:
    partition, role, in_sync, _ = proposal
    error = ErrorCode.of(line.error_code)
    if error is ErrorCode.NONE:
        if proposal.is_current and line.leader_epoch == role.epoch:
            if line.partition_epoch < partition.partition_epoch:
                return False  # of an earlier question, perhaps: what is true by now?
            log.info("%s: in sync are %s", partition.topic_partition, line.isr)
            partition.in_sync_changed(line.isr, partition_epoch=line.partition_epoch)
        return True
    if error not in _INELIGIBLE | _OVERTAKEN:
        return False
    log.info("%s: in-sync replicas stay as they are: %s", partition.topic_partition, error.name)
    if error in _INELIGIBLE and proposal.is_current:
        role.refused(in_sync, now_ms=now_ms)
    return True
