"""TxnOffsetCommit: a producer stores, as part of its transaction, how far a group has read.

The offsets are pending until the transaction ends.  Its coordinator is asked first whether it is
open and has the group's partition in it, or to add that, if the client leaves it to the broker.
A line that cannot be committed is refused alone; what the transaction's coordinator, the group or
its log says against it is said to all lines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.groups.committing import (
    InTransaction,
    NewCommit,
    commit_in_transaction,
    unverified,
    wait_until_replicated,
)
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import Committer
from odradek.broker.groups.shard import GroupShard
from odradek.broker.transactions.verification import (
    ClaimedTransaction,
    Guards,
    Knowledge,
    Verified,
    Verifier,
    verified,
)
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.storage.log import Written
from odradek.storage.producers.verification_guards import VerificationGuard

Request = TxnOffsetCommitRequest
Response = TxnOffsetCommitResponse
Topic = TxnOffsetCommitResponse.Topic
Line = Topic.Partition

_KNOWLEDGE = Knowledge.by_versions(
    TxnOffsetCommitRequest.__schema__.versions.high, abortable_since=4, adds_since=5
)
_NONE = ErrorCode.NONE.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE.code
#: Clients before it stop for good at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
_FIRST_VERSION_OF_LOADING = 2


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


def handle(
    groups: GroupCoordinator, cluster: Cluster, verifier: Verifier, call: Call[Request]
) -> Response | Awaitable[Response | Parked[Response]]:
    committing = Committing(groups, cluster, call)
    if not committing.lines:
        return committing.response
    try:
        shard = groups.shard_of_members(call.request.group_id)
    except KafkaError as failure:
        return committing.refused(failure)
    transaction = ClaimedTransaction(call.request.transactional_id, *committing.producer)
    known = verified(
        partial(committing.begin, shard),
        lambda partitions: verifier.ask(transaction, partitions, committing.knowledge),
    )
    if isinstance(known, tuple):
        return _commit_verified(committing, shard, known)
    return Parked(partial(_commit_later, committing, shard, known))


async def _commit_later(
    committing: Committing, shard: GroupShard, later: Callable[[], Awaitable[Verified]]
) -> Response | Parked[Response]:
    return _commit_verified(committing, shard, await later())


def _commit_verified(
    committing: Committing, shard: GroupShard, known: Verified
) -> Response | Parked[Response]:
    request, partition = committing.call.request, shard.log.partition.topic_partition
    guards, refusals = known
    if partition in refusals:
        return committing.refused(unverified(refusals[partition]))
    try:
        shard = committing.groups.shard(request.group_id)  # it may be another by now
    except KafkaError as failure:
        return committing.refused(failure)
    return committing.commit(shard, guards.get(partition))


class Committing:
    """One request, and its answer as far as it is known."""

    def __init__(self, groups: GroupCoordinator, cluster: Cluster, call: Call[Request]) -> None:
        self.groups = groups
        self.call = call
        self.knowledge = _KNOWLEDGE[call.version]
        self.response = Response(throttle_time_ms=0, topics=[])
        #: Of the partitions that there are.
        self.lines: list[Line] = []
        self._commits: list[NewCommit] = []
        for topic in call.request.topics:
            lines = list(self._judged(cluster.has_partition, topic))
            self.response.topics.append(Topic(name=topic.name, partitions=lines))

    def _judged(
        self, has_partition: Callable[[str, int], bool], topic: Request.Topic
    ) -> Iterator[Line]:
        world = self.groups.world
        longest, now_ms = world.settings.metadata_max_bytes, world.now_ms()
        for asked in topic.partitions:
            index, metadata = asked.partition_index, asked.committed_metadata or ""
            if not has_partition(topic.name, index):
                yield Line(partition_index=index, error_code=_UNKNOWN)
                continue
            is_too_long = len(metadata) > longest
            line = Line(partition_index=index, error_code=_TOO_LARGE if is_too_long else _NONE)
            self.lines.append(line)
            yield line
            if not is_too_long:
                offset, epoch = asked.committed_offset, asked.committed_leader_epoch
                commit = NewCommit((topic.name, index), offset, epoch, metadata, now_ms)
                self._commits.append(commit)

    @property
    def producer(self) -> tuple[int, int]:
        return self.call.request.producer_id, self.call.request.producer_epoch

    def begin(self, shard: GroupShard) -> Guards:
        """None, if nobody has to be asked about the transaction."""
        producer_id, epoch = self.producer
        guard = shard.log.start_verification(
            producer_id, producer_epoch=epoch, bumps_epochs=self.knowledge.adds
        )
        return {} if guard is None else {shard.log.partition.topic_partition: guard}

    def commit(
        self, shard: GroupShard, guard: VerificationGuard | None
    ) -> Response | Parked[Response]:
        request, transaction = self.call.request, InTransaction(*self.producer, guard)
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id)
        try:
            written = commit_in_transaction(
                shard, request.group_id, committer, transaction, self._commits
            )
        except KafkaError as failure:
            return self.refused(failure)
        if written is None or shard.log.is_replicated(written):
            return self.response
        return Parked(partial(self._replicated, shard, written), ends_alone=True)

    async def _replicated(self, shard: GroupShard, written: Written) -> Response:
        try:
            await wait_until_replicated(shard, written)
        except KafkaError as failure:
            return self.refused(failure)
        return self.response

    def refused(self, failure: KafkaError) -> Response:
        code = _code(failure, self.call.version)
        for line in self.lines:
            line.error_code = code
        return self.response


def _code(failure: KafkaError, version: int) -> int:
    is_loading = failure.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and version < _FIRST_VERSION_OF_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE.code
    return code_of(failure)


def refused(call: Call[Request], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    code = _code(failure, call.version)
    return Response(
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Line(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in call.request.topics
        ],
    )
