"""AddPartitionsToTxn: add partitions to a transaction before the producer writes to them.

Clients name one transaction (v0-3).  Brokers name many (v4+), and may set ``verify_only`` to check
whether the partitions are in the transaction (KIP-890).  If one partition of a transaction cannot
be added, none is: the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from odradek.broker.handlers.transaction_responses import to_supported_error
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.shard import PendingAppend
from odradek.broker.transactions.transaction_state import TV_2, ProducerIdAndEpoch
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import TopicPartition

_FIRST_BROKER_VERSION = 4

Body = AddPartitionsToTxnRequest
Response = AddPartitionsToTxnResponse
PartitionResult = AddPartitionsToTxnPartitionResult
ErrorCodes = Mapping[TopicPartition, int]


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The error codes of one transaction: ``default_error_code`` applies to unlisted partitions."""

    error_codes: ErrorCodes
    default_error_code: int = ErrorCode.NONE.code
    #: If the append fails, its error replaces the codes of all partitions.
    pending_append: PendingAppend | None = None


class TransactionRequest(NamedTuple):
    """The part of a request that concerns one transaction, independent of the version."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    topics: Sequence[AddPartitionsToTxnTopic]
    verify_only: bool = False


def handle(
    transactions: TransactionCoordinator, metadata_cache: ClusterMetadata, request: Request[Body]
) -> Response | Awaitable[Response | DelayedOperation[Response]]:
    transaction_requests = _transaction_requests(request)
    if (
        sum(
            len(topic.partitions)
            for transaction_request in transaction_requests
            for topic in transaction_request.topics
        )
        > INLINE_ENTRIES_MAX
    ):
        return _respond_sliced(transactions, metadata_cache, request, transaction_requests)
    results = [
        _add_or_verify(
            transactions,
            dict(_check_partitions(metadata_cache, transaction_request, request)),
            transaction_request,
            request,
        )
        for transaction_request in transaction_requests
    ]
    if any(result.pending_append is not None for result in results):
        return DelayedOperation(
            partial(_respond_when_replicated, request, transaction_requests, results),
            completes_on_shutdown=True,
        )
    return _build_response(
        request, transaction_requests, _partition_results(transaction_requests, results)
    )


async def _respond_sliced(
    transactions: TransactionCoordinator,
    metadata_cache: ClusterMetadata,
    request: Request[Body],
    transaction_requests: Sequence[TransactionRequest],
) -> Response | DelayedOperation[Response]:
    time_slice, results = TimeSlice(), []
    for transaction_request in transaction_requests:
        checked = await time_slice.collect(
            _check_partitions(metadata_cache, transaction_request, request)
        )
        results.append(_add_or_verify(transactions, dict(checked), transaction_request, request))
    if any(result.pending_append is not None for result in results):
        return DelayedOperation(
            partial(_respond_when_replicated, request, transaction_requests, results),
            completes_on_shutdown=True,
        )
    return _build_response(
        request,
        transaction_requests,
        await time_slice.collect(_partition_results(transaction_requests, results)),
    )


async def _respond_when_replicated(
    request: Request[Body],
    transaction_requests: Sequence[TransactionRequest],
    results: Sequence[TransactionResult],
) -> Response:
    """Wait for the appends one after the other; all of them are already in progress."""
    final_results = []
    for result in results:
        error = None if result.pending_append is None else await result.pending_append
        final_results.append(result if error is None else TransactionResult({}, code_of(error)))
    return _build_response(
        request,
        transaction_requests,
        await TimeSlice().collect(_partition_results(transaction_requests, final_results)),
    )


def _transaction_requests(request: Request[Body]) -> list[TransactionRequest]:
    body = request.body
    if request.version < _FIRST_BROKER_VERSION:
        producer = ProducerIdAndEpoch(
            body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
        )
        return [
            TransactionRequest(
                body.v3_and_below_transactional_id, producer, body.v3_and_below_topics
            )
        ]
    return [
        TransactionRequest(
            each.transactional_id,
            ProducerIdAndEpoch(each.producer_id, each.producer_epoch),
            each.topics,
            each.verify_only,
        )
        for each in body.transactions
    ]


def _check_partitions(
    metadata_cache: ClusterMetadata, transaction_request: TransactionRequest, request: Request[Body]
) -> Iterator[tuple[TopicPartition, int]]:
    """Yield each partition with its error code: unknown, not writable for clients, or none."""
    is_client = request.version < _FIRST_BROKER_VERSION
    for topic in transaction_request.topics:
        is_forbidden = is_client and topic.name in INTERNAL_TOPICS
        for number in topic.partitions:
            error = ErrorCode.NONE
            if is_forbidden:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not metadata_cache.has_partition(topic.name, number):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield TopicPartition(topic.name, number), error.code


def _add_or_verify(
    transactions: TransactionCoordinator,
    error_codes: ErrorCodes,
    transaction_request: TransactionRequest,
    request: Request[Body],
) -> TransactionResult:
    failed = {partition: code for partition, code in error_codes.items() if code}
    if failed:
        return TransactionResult(failed, ErrorCode.OPERATION_NOT_ATTEMPTED.code)
    transactional_id, producer = transaction_request.transactional_id, transaction_request.producer
    try:
        if transaction_request.verify_only:
            errors = transactions.verify_partitions(transactional_id, producer, error_codes.keys())
            return TransactionResult(
                {partition: code_of(error) for partition, error in errors.items()}
            )
        # Brokers add partitions only for producers that use transaction version 2.
        is_client = request.version < _FIRST_BROKER_VERSION
        pending_append = transactions.add_partitions(
            transactional_id,
            producer,
            {*error_codes},
            client_transaction_version=0 if is_client else TV_2,
        )
    except KafkaError as error:
        return TransactionResult({}, code_of(to_supported_error(error, request)))
    return TransactionResult({}, pending_append=pending_append)


def _partition_results(
    transaction_requests: Sequence[TransactionRequest], results: Iterable[TransactionResult]
) -> Iterator[PartitionResult]:
    """Yield the results of all partitions in the order of the request."""
    for transaction_request, result in zip(transaction_requests, results, strict=True):
        error_codes, default_error_code = result.error_codes, result.default_error_code
        for topic in transaction_request.topics:
            for number in topic.partitions:
                code = error_codes.get(TopicPartition(topic.name, number), default_error_code)
                yield PartitionResult(partition_index=number, partition_error_code=code)


def _build_response(
    request: Request[Body],
    transaction_requests: Sequence[TransactionRequest],
    partition_results: Iterable[PartitionResult],
) -> Response:
    remaining = iter(partition_results)
    results = [
        Response.TransactionResult(
            transactional_id=transaction_request.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[*islice(remaining, len(topic.partitions))],
                )
                for topic in transaction_request.topics
            ],
        )
        for transaction_request in transaction_requests
    ]
    if request.version >= _FIRST_BROKER_VERSION:
        return Response(throttle_time_ms=0, results_by_transaction=results)
    (result,) = results
    return Response(throttle_time_ms=0, results_by_topic_v3_and_below=result.topic_results)


def error_response(request: Request[Body], error: KafkaError) -> AddPartitionsToTxnResponse:
    if request.version >= _FIRST_BROKER_VERSION:
        return Response(throttle_time_ms=0, error_code=code_of(error))
    transaction_requests, result = (
        _transaction_requests(request),
        TransactionResult({}, code_of(error)),
    )
    return _build_response(
        request, transaction_requests, _partition_results(transaction_requests, [result])
    )
