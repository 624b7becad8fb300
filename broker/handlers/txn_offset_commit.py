"""TxnOffsetCommit: a producer commits offsets of a group as part of its transaction.

The offsets are pending until the transaction ends.  First the transaction coordinator verifies that
the transaction is ongoing and contains the group's partition of ``__consumer_offsets``, or adds the
partition, if the client leaves this to the broker.  An unknown partition, or one with too much
metadata, is rejected individually.  An error of the transaction coordinator, of the group or of its
log is the error of all known partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    TransactionalProducer,
    commit_transactional_offsets,
    verification_error,
    wait_until_replicated,
)
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.transactions.add_partitions_to_txn_manager import (
    AddPartitionsToTxnManager,
    ClientCapabilities,
    TransactionIdentity,
    VerificationGuards,
    VerificationResult,
    verify_with_retries,
)
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.storage.producer_state.verification_guards import VerificationGuard
from odradek.storage.unified_log import LogAppendInfo

Body = TxnOffsetCommitRequest
Response = TxnOffsetCommitResponse
Topic = TxnOffsetCommitResponse.Topic
PartitionResponse = Topic.Partition

_CLIENT_CAPABILITIES = ClientCapabilities.by_versions(
    TxnOffsetCommitRequest.__schema__.versions.high, abortable_since=4, adds_since=5
)
_NONE = ErrorCode.NONE.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE.code
#: Earlier clients treat COORDINATOR_LOAD_IN_PROGRESS as fatal (KAFKA-7296).
_FIRST_VERSION_WITH_LOAD_IN_PROGRESS = 2


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


def handle(
    groups: GroupCoordinator,
    metadata_cache: ClusterMetadata,
    add_partitions_to_txn_manager: AddPartitionsToTxnManager,
    request: Request[Body],
) -> Response | Awaitable[Response | DelayedOperation[Response]]:
    txn_commit = TxnOffsetCommit(groups, metadata_cache, request)
    if not txn_commit.partition_responses:
        return txn_commit.response
    try:
        shard = groups.shard_for_nonempty_id(request.body.group_id)
    except KafkaError as error:
        return txn_commit.error_response(error)
    transaction = TransactionIdentity(request.body.transactional_id, *txn_commit.producer)
    verification = verify_with_retries(
        partial(txn_commit.start_verification, shard),
        lambda partitions: add_partitions_to_txn_manager.add_or_verify_transaction(
            transaction, partitions, txn_commit.capabilities
        ),
    )
    if isinstance(verification, tuple):
        return _commit_verified(txn_commit, shard, verification)
    return DelayedOperation(partial(_commit_when_verified, txn_commit, shard, verification))


async def _commit_when_verified(
    txn_commit: TxnOffsetCommit,
    shard: GroupCoordinatorShard,
    verify: Callable[[], Awaitable[VerificationResult]],
) -> Response | DelayedOperation[Response]:
    return _commit_verified(txn_commit, shard, await verify())


def _commit_verified(
    txn_commit: TxnOffsetCommit, shard: GroupCoordinatorShard, verification: VerificationResult
) -> Response | DelayedOperation[Response]:
    body, partition = txn_commit.request.body, shard.log.partition.topic_partition
    guards, errors = verification
    if partition in errors:
        return txn_commit.error_response(verification_error(errors[partition]))
    try:
        # The shard may have been replaced during the verification.
        shard = txn_commit.groups.shard(body.group_id)
    except KafkaError as error:
        return txn_commit.error_response(error)
    return txn_commit.commit(shard, guards.get(partition))


class TxnOffsetCommit:
    """One request, and its response so far."""

    def __init__(
        self, groups: GroupCoordinator, metadata_cache: ClusterMetadata, request: Request[Body]
    ) -> None:
        self.groups = groups
        self.request = request
        self.capabilities = _CLIENT_CAPABILITIES[request.version]
        self.response = Response(throttle_time_ms=0, topics=[])
        #: The responses of the known partitions.
        self.partition_responses: list[PartitionResponse] = []
        self._commits: list[OffsetCommitEntry] = []
        for topic in request.body.topics:
            partition_responses = list(self._validate(metadata_cache.has_partition, topic))
            self.response.topics.append(Topic(name=topic.name, partitions=partition_responses))

    def _validate(
        self, has_partition: Callable[[str, int], bool], topic: Body.Topic
    ) -> Iterator[PartitionResponse]:
        context = self.groups.context
        metadata_max_bytes, now_ms = context.settings.metadata_max_bytes, context.now_ms()
        for partition_request in topic.partitions:
            index, metadata = (
                partition_request.partition_index,
                partition_request.committed_metadata or "",
            )
            if not has_partition(topic.name, index):
                yield PartitionResponse(partition_index=index, error_code=_UNKNOWN)
                continue
            is_too_long = len(metadata) > metadata_max_bytes
            partition_response = PartitionResponse(
                partition_index=index, error_code=_TOO_LARGE if is_too_long else _NONE
            )
            self.partition_responses.append(partition_response)
            yield partition_response
            if not is_too_long:
                offset, epoch = (
                    partition_request.committed_offset,
                    partition_request.committed_leader_epoch,
                )
                commit = OffsetCommitEntry((topic.name, index), offset, epoch, metadata, now_ms)
                self._commits.append(commit)

    @property
    def producer(self) -> tuple[int, int]:
        return self.request.body.producer_id, self.request.body.producer_epoch

    def start_verification(self, shard: GroupCoordinatorShard) -> VerificationGuards:
        """Return no guard if the transaction needs no verification."""
        producer_id, epoch = self.producer
        guard = shard.log.start_verification(
            producer_id,
            producer_epoch=epoch,
            supports_epoch_bump=self.capabilities.adds_partitions_on_write,
        )
        return {} if guard is None else {shard.log.partition.topic_partition: guard}

    def commit(
        self, shard: GroupCoordinatorShard, verification_guard: VerificationGuard | None
    ) -> Response | DelayedOperation[Response]:
        body, transaction = (
            self.request.body,
            TransactionalProducer(*self.producer, verification_guard),
        )
        committer = Committer(body.member_id, body.group_instance_id, body.generation_id)
        try:
            append_info = commit_transactional_offsets(
                shard, body.group_id, committer, transaction, self._commits
            )
        except KafkaError as error:
            return self.error_response(error)
        if append_info is None or shard.log.is_replicated(append_info):
            return self.response
        return DelayedOperation(
            partial(self._respond_when_replicated, shard, append_info), completes_on_shutdown=True
        )

    async def _respond_when_replicated(
        self, shard: GroupCoordinatorShard, append_info: LogAppendInfo
    ) -> Response:
        try:
            await wait_until_replicated(shard, append_info)
        except KafkaError as error:
            return self.error_response(error)
        return self.response

    def error_response(self, error: KafkaError) -> Response:
        code = _error_code(error, self.request.version)
        for partition_response in self.partition_responses:
            partition_response.error_code = code
        return self.response


def _error_code(error: KafkaError, version: int) -> int:
    is_loading = error.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and version < _FIRST_VERSION_WITH_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE.code
    return code_of(error)


def error_response(request: Request[Body], error: KafkaError) -> Response:
    """Return the same error for every partition."""
    code = _error_code(error, request.version)
    return Response(
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=partition_request.partition_index, error_code=code
                    )
                    for partition_request in topic.partitions
                ],
            )
            for topic in request.body.topics
        ],
    )
