"""Verifies with the coordinator that a partition is in an ongoing transaction (KIP-890).

Kafka: AddPartitionsToTxnManager.

The leader of a partition sends an AddPartitionsToTxn request to the coordinator before it appends
the first batch of a transaction.  The request only verifies the partition or, for clients that
leave this to the brokers, adds it.  A coordinator on this broker gets the same request, without a
connection (broker/loopback_client.py).

Each coordinator has one request in flight.  Verifications that arrive meanwhile are sent together
in the next request, but only one per transactional id, because the response identifies them only by
that.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.schema import Message
from odradek.protocol.types import TopicPartition, group_by_topic
from odradek.storage.producer_state.verification_guards import VerificationGuard

log = logging.getLogger("kafka.coordinator.transaction")

#: The first version that may return TRANSACTION_ABORTABLE.
API_VERSION = 5
#: A transaction that is about to end usually ends within a millisecond.  The backoff doubles with
#: each retry, up to its maximum; the timeout limits all retries.  The maximum and the timeout are
#: the defaults of Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms.
RETRY_BACKOFF_MIN_S, RETRY_BACKOFF_MAX_S = 0.001, 0.02
RETRY_TIMEOUT_S = 0.1

#: The guards of partitions in which a transaction would begin.
VerificationGuards = Mapping[TopicPartition, VerificationGuard]
#: The errors of partitions; a partition without an error is in the transaction.
PartitionErrors = Mapping[TopicPartition, ErrorCode]
VerificationResult = tuple[VerificationGuards, PartitionErrors]

StartVerification = Callable[[], VerificationGuards]
VerifyPartitions = Callable[
    [Sequence[TopicPartition]], PartitionErrors | Awaitable[PartitionErrors]
]


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """What a client supports and expects, by the version of its request."""

    #: The brokers add partitions to the transaction when the client writes to them.
    adds_partitions_on_write: bool = False
    #: The client knows TRANSACTION_ABORTABLE; other clients get INVALID_TXN_STATE.
    supports_transaction_abortable: bool = False

    @classmethod
    def by_versions(
        cls, latest_version: int, *, abortable_since: int, adds_since: int
    ) -> Sequence[ClientCapabilities]:
        return [
            cls(version >= adds_since, version >= abortable_since)
            for version in range(latest_version + 1)
        ]


@dataclass(frozen=True, slots=True)
class TransactionIdentity:
    """A transaction, as its producer identifies it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class _VerificationRequest:
    transaction: TransactionIdentity
    partitions: Sequence[TopicPartition]
    capabilities: ClientCapabilities

    def errors_for_all(self, error: ErrorCode) -> PartitionErrors:
        return dict.fromkeys(self.partitions, error)


#: A request, and the future of its result.
_QueuedRequest = tuple[_VerificationRequest, asyncio.Future[PartitionErrors]]


class TransactionCoordinatorLookup(Protocol):
    """Maps a transactional id to its coordinator."""

    def coordinator(self, key: str, /, *, listener: str) -> Node: ...


class AddPartitionsToTxnManager:
    """Verifies the partitions that this broker leads."""

    def __init__(
        self,
        coordinator_lookup: TransactionCoordinatorLookup,
        clients: BrokerClients,
        *,
        listener: str,
        start_task: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]],
    ) -> None:
        """``listener`` is the inter-broker listener."""
        self._coordinator_lookup = coordinator_lookup
        self._clients = clients
        self._listener = listener
        self._start_task = start_task
        #: The requests that wait, by coordinator with a request in flight.
        self._queues: dict[Node, list[_QueuedRequest]] = {}

    def close(self) -> None:
        """Close the connections; waiting requests fail with NETWORK_EXCEPTION."""
        self._clients.close()

    def add_or_verify_transaction(
        self,
        transaction: TransactionIdentity,
        partitions: Sequence[TopicPartition],
        capabilities: ClientCapabilities,
    ) -> PartitionErrors | Awaitable[PartitionErrors]:
        """Return the errors at once if this broker knows them.  Never raises."""
        verification_request = _VerificationRequest(transaction, partitions, capabilities)
        transactional_id = transaction.transactional_id
        try:
            node = self._coordinator_lookup.coordinator(transactional_id, listener=self._listener)
        except KafkaError as error:
            return verification_request.errors_for_all(error.error_code)
        client = self._clients.client_for(node)
        if isinstance(client, LoopbackClient):
            return self._verify_locally(client, verification_request)
        future: asyncio.Future[PartitionErrors] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(node)
        if queue is None:
            queue = self._queues[node] = []
            self._start_task(
                self._drain_queue(node), f"transaction verification by broker {node.id}"
            )
        queue.append((verification_request, future))
        return future

    async def _drain_queue(self, node: Node) -> None:
        batch: list[_QueuedRequest] = []
        try:
            while self._queues[node]:
                batch, self._queues[node] = _split_by_transactional_id(self._queues[node])
                await self._send(batch, node)
        finally:
            # Complete the futures even if this task fails.
            _fail_all([*batch, *self._queues.pop(node)], ErrorCode.NETWORK_EXCEPTION)

    async def _send(self, queued: Sequence[_QueuedRequest], node: Node) -> None:
        verification_requests = [verification_request for verification_request, _ in queued]
        try:
            response = await self._clients.client_for(node).send(
                _request(verification_requests), version=API_VERSION
            )
        except (OSError, DecodeError) as error:
            log.warning("AddPartitionsToTxn request failed for broker %d: %s", node.id, error)
            _fail_all(queued, ErrorCode.NETWORK_EXCEPTION)
            return
        for (_, future), errors in zip(
            queued, _partition_errors(verification_requests, response), strict=True
        ):
            _complete_future(future, errors)

    def _verify_locally(
        self, client: LoopbackClient, verification_request: _VerificationRequest
    ) -> PartitionErrors | Awaitable[PartitionErrors]:
        try:
            response = client.send_nowait(_request([verification_request]), version=API_VERSION)
        except ConnectionError:
            return verification_request.errors_for_all(ErrorCode.NETWORK_EXCEPTION)
        if isinstance(response, Message):
            (errors,) = _partition_errors([verification_request], response)
            return errors
        # A task, because the caller may be gone before the response arrives.
        return self._start_task(
            _await_partition_errors(verification_request, response),
            "transaction verification on this broker",
        )


async def _await_partition_errors(
    verification_request: _VerificationRequest, response: Awaitable[Message]
) -> PartitionErrors:
    (errors,) = _partition_errors([verification_request], await response)
    return errors


def verify_with_retries(
    start_verification: StartVerification, verify_partitions: VerifyPartitions
) -> VerificationResult | Callable[[], Awaitable[VerificationResult]]:
    """Return the guards that ``start_verification`` returned last, and their partitions' errors.

    If the result is not known at once, return a function to call and await.
    """
    guards = start_verification()
    if not guards:
        return {}, {}
    result = verify_partitions([*guards])
    if isinstance(result, Mapping) and ErrorCode.CONCURRENT_TRANSACTIONS not in result.values():
        return guards, result
    return partial(
        _verify_with_retries_async, start_verification, verify_partitions, guards, result
    )


async def _verify_with_retries_async(
    start_verification: StartVerification,
    verify_partitions: VerifyPartitions,
    guards: VerificationGuards,
    result: PartitionErrors | Awaitable[PartitionErrors],
) -> VerificationResult:
    """``result`` is about the transaction for which ``guards`` were created.

    The request is retried for a short time while the producer's last transaction is about to end.
    The marker that ends it removes the guards.  So each request has its own guards.  If a marker
    arrived between the request and the response, the response may be about the transaction before
    the marker, and the request is sent once more.
    """
    loop = asyncio.get_running_loop()
    deadline, backoff_s, is_second_result = (
        loop.time() + RETRY_TIMEOUT_S,
        RETRY_BACKOFF_MIN_S,
        False,
    )
    while guards:
        errors = result if isinstance(result, Mapping) else await result
        if ErrorCode.CONCURRENT_TRANSACTIONS in errors.values() and loop.time() < deadline:
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, RETRY_BACKOFF_MAX_S)
        elif errors or is_second_result or start_verification() == guards:
            return guards, errors
        else:
            is_second_result = True
        guards = start_verification()
        result = verify_partitions([*guards]) if guards else {}
    return {}, {}


def _split_by_transactional_id(
    queued: Sequence[_QueuedRequest],
) -> tuple[list[_QueuedRequest], list[_QueuedRequest]]:
    """Return the first request of each transactional id, and the remaining requests."""
    first: dict[str, _QueuedRequest] = {}
    for each in queued:
        first.setdefault(each[0].transaction.transactional_id, each)
    remaining = [each for each in queued if first[each[0].transaction.transactional_id] is not each]
    return [*first.values()], remaining


def _request(verification_requests: Iterable[_VerificationRequest]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[*map(_transaction_entry, verification_requests)])


def _transaction_entry(
    verification_request: _VerificationRequest,
) -> AddPartitionsToTxnRequest.Transaction:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=verification_request.transaction.transactional_id,
        producer_id=verification_request.transaction.producer_id,
        producer_epoch=verification_request.transaction.producer_epoch,
        verify_only=not verification_request.capabilities.adds_partitions_on_write,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in group_by_topic(verification_request.partitions).items()
        ],
    )


def _fail_all(queued: Sequence[_QueuedRequest], error: ErrorCode) -> None:
    for verification_request, future in queued:
        _complete_future(future, verification_request.errors_for_all(error))


def _complete_future(future: asyncio.Future[PartitionErrors], errors: PartitionErrors) -> None:
    if not future.done():  # the caller may be gone
        future.set_result(errors)


def _partition_errors(
    verification_requests: Iterable[_VerificationRequest], response: Message
) -> Iterator[PartitionErrors]:
    """Yield the errors of each request."""
    assert isinstance(response, AddPartitionsToTxnResponse), response
    error = ErrorCode.for_code(response.error_code)
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # Clients do not know that a broker may lack the authorization to verify.
        error = ErrorCode.INVALID_TXN_STATE
    if error is not ErrorCode.NONE:
        yield from (
            verification_request.errors_for_all(error)
            for verification_request in verification_requests
        )
        return
    results = {
        each.transactional_id: each.topic_results for each in response.results_by_transaction
    }
    for verification_request in verification_requests:
        error_codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in results.get(verification_request.transaction.transactional_id, ())
            for each in topic.results_by_partition
        }
        yield _map_partition_errors(verification_request, error_codes)


def _map_partition_errors(
    verification_request: _VerificationRequest, error_codes: Mapping[TopicPartition, int]
) -> PartitionErrors:
    errors = {}
    for partition in verification_request.partitions:
        # A partition without a result is not known to be in the transaction.
        code = error_codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR.code)
        error = ErrorCode.for_code(code)
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH  # the error that producers expect here
        elif (
            error is ErrorCode.TRANSACTION_ABORTABLE
            and not verification_request.capabilities.supports_transaction_abortable
        ):
            error = ErrorCode.INVALID_TXN_STATE
        if error is not ErrorCode.NONE:
            errors[partition] = error
    return errors
