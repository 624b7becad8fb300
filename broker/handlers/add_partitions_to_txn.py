"""AddPartitionsToTxn: partitions become part of a transaction before anything is written to them.

Clients add for one transaction (v0-3).  Brokers ask for many at once, and may ask only whether the
partitions are in it (KIP-890).  One partition that cannot be added keeps out all others of its
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.transaction_answers import as_known
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.shard import Waiting
from odradek.broker.transactions.transaction_state import EPOCH_FOR_EACH, Producer
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

_FIRST_VERSION_OF_BROKERS = 4

Request = AddPartitionsToTxnRequest
Response = AddPartitionsToTxnResponse
Codes = Mapping[TopicPartition, int]


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


@dataclass(slots=True)
class Outcome:
    """What is told of each partition, unless what is waited for says otherwise."""

    codes: Codes
    waiting: Waiting | None = None


class Asked(NamedTuple):
    """What is asked for one transaction, in any version."""

    transactional_id: str
    producer: Producer
    topics: Sequence[AddPartitionsToTxnTopic]
    is_check: bool = False

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, number)
            for topic in self.topics
            for number in topic.partitions
        ]


def handle(
    transactions: TransactionCoordinator, cluster: Cluster, call: Call[Request]
) -> Response | Parked[Response]:
    outcomes = [_outcome(transactions, cluster, asked, call) for asked in _asked(call)]
    if any(each.waiting is not None for each in outcomes):
        return Parked(partial(_answer_later, call, outcomes), ends_alone=True)
    return _response(call, [each.codes for each in outcomes])


async def _answer_later(call: Call[Request], outcomes: Sequence[Outcome]) -> Response:
    """Each in turn: what the first waited for, the others had time for as well."""
    for outcome in outcomes:
        failure = None if outcome.waiting is None else await outcome.waiting
        if failure is not None:
            outcome.codes = dict.fromkeys(outcome.codes, code_of(failure))
    return _response(call, [each.codes for each in outcomes])


def _asked(call: Call[Request]) -> list[Asked]:
    request = call.request
    if call.version < _FIRST_VERSION_OF_BROKERS:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        return [Asked(request.v3_and_below_transactional_id, producer, request.v3_and_below_topics)]
    return [
        Asked(
            each.transactional_id,
            Producer(each.producer_id, each.producer_epoch),
            each.topics,
            each.verify_only,
        )
        for each in request.transactions
    ]


def _not_to_be_added(cluster: Cluster, asked: Asked, call: Call[Request]) -> Codes:
    """Empty if all are there, and may be written to."""
    is_client = call.version < _FIRST_VERSION_OF_BROKERS
    codes: dict[TopicPartition, int] = {}
    for each in asked.partitions:
        if is_client and each.topic in INTERNAL_TOPICS:
            codes[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED.code
        elif not cluster.has_partition(*each):
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
    if not codes:
        return {}
    return dict.fromkeys(asked.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED.code) | codes


def _outcome(
    transactions: TransactionCoordinator, cluster: Cluster, asked: Asked, call: Call[Request]
) -> Outcome:
    transactional_id, producer, partitions = asked[0], asked.producer, asked.partitions
    in_the_way = _not_to_be_added(cluster, asked, call)
    if in_the_way:
        return Outcome(in_the_way)
    try:
        if asked.is_check:
            found = transactions.verify(transactional_id, producer, partitions)
            return Outcome({each: code_of(failure) for each, failure in found.items()})
        # A broker adds for whoever speaks version 2, and does not add for itself.
        is_client = call.version < _FIRST_VERSION_OF_BROKERS
        waiting = transactions.add(
            transactional_id,
            producer,
            {*partitions},
            client_version=0 if is_client else EPOCH_FOR_EACH,
        )
    except KafkaError as failure:
        return Outcome(dict.fromkeys(partitions, code_of(as_known(failure, call))))
    return Outcome(dict.fromkeys(partitions, ErrorCode.NONE.code), waiting)


def _response(call: Call[Request], codes: Iterable[Codes]) -> Response:
    results = [
        Response.TransactionResult(
            transactional_id=asked.transactional_id,
            topic_results=[_topic(topic, of_each) for topic in asked.topics],
        )
        for asked, of_each in zip(_asked(call), codes, strict=True)
    ]
    if call.version >= _FIRST_VERSION_OF_BROKERS:
        return Response(throttle_time_ms=0, results_by_transaction=results)
    (only,) = results
    return Response(throttle_time_ms=0, results_by_topic_v3_and_below=only.topic_results)


def _topic(topic: AddPartitionsToTxnTopic, codes: Codes) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=number,
                partition_error_code=codes[TopicPartition(topic.name, number)],
            )
            for number in topic.partitions
        ],
    )


def refused(call: Call[Request], failure: KafkaError) -> AddPartitionsToTxnResponse:
    """All of it, for one reason."""
    if call.version >= _FIRST_VERSION_OF_BROKERS:
        return Response(throttle_time_ms=0, error_code=code_of(failure))
    return _response(
        call, [dict.fromkeys(asked.partitions, code_of(failure)) for asked in _asked(call)]
    )
