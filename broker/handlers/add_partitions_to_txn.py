"""AddPartitionsToTxn: partitions become part of a transaction before anything is written to them.

Clients add for one transaction (v0-3).  Brokers ask for many at once, and may ask only whether the
partitions are in it (KIP-890).  One partition that cannot be added keeps out all others of its
transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.transaction_answers import as_known
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.shard import Waiting
from odradek.broker.transactions.transaction_state import EPOCH_FOR_EACH, Producer
from odradek.broker.turns import FEW, Turn
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
Line = AddPartitionsToTxnPartitionResult
Codes = Mapping[TopicPartition, int]


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is told of partitions by name, and of all others."""

    codes: Codes
    otherwise: int = ErrorCode.NONE.code
    #: May say otherwise of all.
    waiting: Waiting | None = None


class Asked(NamedTuple):
    """What is asked for one transaction, in any version."""

    transactional_id: str
    producer: Producer
    topics: Sequence[AddPartitionsToTxnTopic]
    is_check: bool = False


def handle(
    transactions: TransactionCoordinator, cluster: Cluster, call: Call[Request]
) -> Response | Awaitable[Response | Parked[Response]]:
    all_asked = _asked(call)
    if sum(len(topic.partitions) for asked in all_asked for topic in asked.topics) > FEW:
        return _answer_in_turns(transactions, cluster, call, all_asked)
    outcomes = [
        _outcome(transactions, dict(_checked(cluster, asked, call)), asked, call)
        for asked in all_asked
    ]
    if any(each.waiting is not None for each in outcomes):
        return Parked(partial(_answer_later, call, all_asked, outcomes), ends_alone=True)
    return _response(call, all_asked, _lines(all_asked, outcomes))


async def _answer_in_turns(
    transactions: TransactionCoordinator,
    cluster: Cluster,
    call: Call[Request],
    all_asked: Sequence[Asked],
) -> Response | Parked[Response]:
    turn, outcomes = Turn(), []
    for asked in all_asked:
        checked = await turn.listed(_checked(cluster, asked, call))
        outcomes.append(_outcome(transactions, dict(checked), asked, call))
    if any(each.waiting is not None for each in outcomes):
        return Parked(partial(_answer_later, call, all_asked, outcomes), ends_alone=True)
    return _response(call, all_asked, await turn.listed(_lines(all_asked, outcomes)))


async def _answer_later(
    call: Call[Request], all_asked: Sequence[Asked], outcomes: Sequence[Outcome]
) -> Response:
    """Each in turn: what the first waited for, the others had time for as well."""
    known = []
    for outcome in outcomes:
        failure = None if outcome.waiting is None else await outcome.waiting
        known.append(outcome if failure is None else Outcome({}, code_of(failure)))
    return _response(call, all_asked, await Turn().listed(_lines(all_asked, known)))


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


def _checked(
    cluster: Cluster, asked: Asked, call: Call[Request]
) -> Iterator[tuple[TopicPartition, int]]:
    """What stands against each partition: that it is not there, or may not be written to."""
    is_client = call.version < _FIRST_VERSION_OF_BROKERS
    for topic in asked.topics:
        is_forbidden = is_client and topic.name in INTERNAL_TOPICS
        for number in topic.partitions:
            error = ErrorCode.NONE
            if is_forbidden:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not cluster.has_partition(topic.name, number):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield TopicPartition(topic.name, number), error.code


def _outcome(
    transactions: TransactionCoordinator, checked: Codes, asked: Asked, call: Call[Request]
) -> Outcome:
    in_the_way = {each: code for each, code in checked.items() if code}
    if in_the_way:
        return Outcome(in_the_way, ErrorCode.OPERATION_NOT_ATTEMPTED.code)
    transactional_id, producer = asked.transactional_id, asked.producer
    try:
        if asked.is_check:
            found = transactions.verify(transactional_id, producer, checked.keys())
            return Outcome({each: code_of(failure) for each, failure in found.items()})
        # A broker adds for whoever speaks version 2, and does not add for itself.
        is_client = call.version < _FIRST_VERSION_OF_BROKERS
        waiting = transactions.add(
            transactional_id,
            producer,
            {*checked},
            client_version=0 if is_client else EPOCH_FOR_EACH,
        )
    except KafkaError as failure:
        return Outcome({}, code_of(as_known(failure, call)))
    return Outcome({}, waiting=waiting)


def _lines(all_asked: Sequence[Asked], outcomes: Iterable[Outcome]) -> Iterator[Line]:
    """Of all partitions, in the order in which they were asked for."""
    for asked, outcome in zip(all_asked, outcomes, strict=True):
        codes, otherwise = outcome.codes, outcome.otherwise
        for topic in asked.topics:
            for number in topic.partitions:
                code = codes.get(TopicPartition(topic.name, number), otherwise)
                yield Line(partition_index=number, partition_error_code=code)


def _response(call: Call[Request], all_asked: Sequence[Asked], lines: Iterable[Line]) -> Response:
    left = iter(lines)
    results = [
        Response.TransactionResult(
            transactional_id=asked.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name, results_by_partition=[*islice(left, len(topic.partitions))]
                )
                for topic in asked.topics
            ],
        )
        for asked in all_asked
    ]
    if call.version >= _FIRST_VERSION_OF_BROKERS:
        return Response(throttle_time_ms=0, results_by_transaction=results)
    (only,) = results
    return Response(throttle_time_ms=0, results_by_topic_v3_and_below=only.topic_results)


def refused(call: Call[Request], failure: KafkaError) -> AddPartitionsToTxnResponse:
    """All of it, for one reason."""
    if call.version >= _FIRST_VERSION_OF_BROKERS:
        return Response(throttle_time_ms=0, error_code=code_of(failure))
    all_asked, outcome = _asked(call), Outcome({}, code_of(failure))
    return _response(call, all_asked, _lines(all_asked, [outcome]))
