"""Is this transaction open, and is this partition in it?  Asked of its coordinator (KIP-890).

The leader of a partition asks before the first batch of a transaction is appended there, by an
AddPartitionsToTxn between brokers: only whether the partition is in the transaction or, for clients
that leave that to the brokers, to have it added.  A coordinator on this broker is asked by the same
request as any other, though by no connection (broker/own_client.py).

One request at a time goes to each coordinator.  What is asked meanwhile goes together in the next,
but of each transactional id one question at a time, as answers tell them apart by nothing else.

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

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.own_client import OwnClient
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.schema import Message
from odradek.protocol.types import TopicPartition, by_topic
from odradek.storage.producers.verification_guards import VerificationGuard

log = logging.getLogger(__name__)

#: The first that may answer TRANSACTION_ABORTABLE.
VERSION = 5
#: A transaction that is about to end has ended soon, often within a millisecond: how long to wait
#: before it is asked again, twice as long each time, and for how long in all.  The upper bounds are
#: the defaults of Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms.
RETRY_MIN_S, RETRY_MAX_S = 0.001, 0.02
RETRIES_S = 0.1

#: Of partitions in which a transaction would begin.
Guards = Mapping[TopicPartition, VerificationGuard]
#: What stands against each partition; those that are not named are in the transaction.
Refusals = Mapping[TopicPartition, ErrorCode]
Verified = tuple[Guards, Refusals]

Begin = Callable[[], Guards]
Ask = Callable[[Sequence[TopicPartition]], Refusals | Awaitable[Refusals]]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a client expects of the brokers, by the version of its request."""

    #: That its partitions are added to the transaction as it writes to them.
    adds: bool = False
    #: TRANSACTION_ABORTABLE; others are told INVALID_TXN_STATE.
    is_abortable_known: bool = False

    @classmethod
    def by_versions(
        cls, highest: int, *, abortable_since: int, adds_since: int
    ) -> Sequence[Knowledge]:
        return [
            cls(version >= adds_since, version >= abortable_since) for version in range(highest + 1)
        ]


@dataclass(frozen=True, slots=True)
class ClaimedTransaction:
    """Whose it is, as its producer says."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class _Question:
    transaction: ClaimedTransaction
    partitions: Sequence[TopicPartition]
    knowledge: Knowledge

    def refused(self, error: ErrorCode) -> Refusals:
        return dict.fromkeys(self.partitions, error)


#: A question, and whoever waits for the answer.
_Asked = tuple[_Question, asyncio.Future[Refusals]]


class Coordinators(Protocol):
    """Who coordinates which transactional id."""

    def coordinator(self, key: str, /, *, listener: str) -> Node: ...


class Verifier:
    """Asks for all partitions that this broker leads."""

    def __init__(
        self,
        coordinators: Coordinators,
        clients: BrokerClients,
        *,
        listener: str,
        start: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]],
    ) -> None:
        """``listener`` is the one by which brokers speak to each other."""
        self._coordinators = coordinators
        self._clients = clients
        self._listener = listener
        self._start = start
        #: What waits for coordinators that are being asked.
        self._lines: dict[Node, list[_Asked]] = {}

    def close(self) -> None:
        """Whoever still waits is told that nobody answered."""
        self._clients.close()

    def ask(
        self,
        transaction: ClaimedTransaction,
        partitions: Sequence[TopicPartition],
        knowledge: Knowledge,
    ) -> Refusals | Awaitable[Refusals]:
        """At once, if this broker can tell.  Never raises."""
        question = _Question(transaction, partitions, knowledge)
        transactional_id = transaction.transactional_id
        try:
            node = self._coordinators.coordinator(transactional_id, listener=self._listener)
        except KafkaError as failure:
            return question.refused(failure.error)
        client = self._clients.to(node)
        if isinstance(client, OwnClient):
            return self._answered_here(client, question)
        answer: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = []
            self._start(self._work(node), f"transactions verified by broker {node.id}")
        line.append((question, answer))
        return answer

    async def _work(self, node: Node) -> None:
        asked: list[_Asked] = []
        try:
            while self._lines[node]:
                asked, self._lines[node] = _of_different_ids(self._lines[node])
                await self._send(asked, node)
        finally:
            # Nobody waits for ever, whatever happens here.
            _refuse_all([*asked, *self._lines.pop(node)], ErrorCode.NETWORK_EXCEPTION)

    async def _send(self, asked: Sequence[_Asked], node: Node) -> None:
        questions = [question for question, _ in asked]
        try:
            response = await self._clients.to(node).send(_request(questions), version=VERSION)
        except (OSError, DecodeError) as failure:
            log.warning("Broker %d did not say which transactions are open: %s", node.id, failure)
            _refuse_all(asked, ErrorCode.NETWORK_EXCEPTION)
            return
        for (_, answer), refusals in zip(asked, _refusals(questions, response), strict=True):
            _tell(answer, refusals)

    def _answered_here(
        self, client: OwnClient, question: _Question
    ) -> Refusals | Awaitable[Refusals]:
        try:
            response = client.ask(_request([question]), version=VERSION)
        except ConnectionError:
            return question.refused(ErrorCode.NETWORK_EXCEPTION)
        if isinstance(response, Message):
            (refusals,) = _refusals([question], response)
            return refusals
        # A task, since whoever has asked may have gone before the answer is there.
        return self._start(_refusals_later(question, response), "transactions verified here")


async def _refusals_later(question: _Question, response: Awaitable[Message]) -> Refusals:
    (refusals,) = _refusals([question], await response)
    return refusals


def verified(begin: Begin, ask: Ask) -> Verified | Callable[[], Awaitable[Verified]]:
    """The guards that ``begin`` gave last, and what was said of their partitions.

    Known at once, if this broker can tell, else by what is to be called and awaited.
    """
    guards = begin()
    if not guards:
        return {}, {}
    answer = ask([*guards])
    if isinstance(answer, Mapping) and ErrorCode.CONCURRENT_TRANSACTIONS not in answer.values():
        return guards, answer
    return partial(_verified_later, begin, ask, guards, answer)


async def _verified_later(
    begin: Begin, ask: Ask, guards: Guards, answer: Refusals | Awaitable[Refusals]
) -> Verified:
    """``answer`` is about the transaction that ``guards`` are of.

    It is asked again, though not for long, while the producer's last transaction is about to end.
    The marker that ends it takes guards away.  So each question has guards of its own, and if a
    marker came between the question and the answer, the answer may be about what was before it.
    """
    loop = asyncio.get_running_loop()
    give_up_at, retry_s, is_second_word = loop.time() + RETRIES_S, RETRY_MIN_S, False
    while guards:
        refusals = answer if isinstance(answer, Mapping) else await answer
        if ErrorCode.CONCURRENT_TRANSACTIONS in refusals.values() and loop.time() < give_up_at:
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)
        elif refusals or is_second_word or begin() == guards:
            return guards, refusals
        else:
            is_second_word = True
        guards = begin()
        answer = ask([*guards]) if guards else {}
    return {}, {}


def _of_different_ids(asked: Sequence[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
    """Those that go together now, and those that come after them."""
    first: dict[str, _Asked] = {}
    for each in asked:
        first.setdefault(each[0].transaction.transactional_id, each)
    later = [each for each in asked if first[each[0].transaction.transactional_id] is not each]
    return [*first.values()], later


def _request(questions: Iterable[_Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[*map(_entry, questions)])


def _entry(question: _Question) -> AddPartitionsToTxnRequest.Transaction:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=question.transaction.transactional_id,
        producer_id=question.transaction.producer_id,
        producer_epoch=question.transaction.producer_epoch,
        verify_only=not question.knowledge.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(question.partitions).items()
        ],
    )


def _refuse_all(asked: Sequence[_Asked], error: ErrorCode) -> None:
    for question, answer in asked:
        _tell(answer, question.refused(error))


def _tell(answer: asyncio.Future[Refusals], refusals: Refusals) -> None:
    if not answer.done():  # whoever asked may have gone
        answer.set_result(refusals)


def _refusals(questions: Iterable[_Question], response: Message) -> Iterator[Refusals]:
    """For each question."""
    assert isinstance(response, AddPartitionsToTxnResponse), response
    error = ErrorCode.of(response.error_code)
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # That a broker may not ask is nothing that its clients know of.
        error = ErrorCode.INVALID_TXN_STATE
    if error is not ErrorCode.NONE:
        yield from (question.refused(error) for question in questions)
        return
    results = {
        each.transactional_id: each.topic_results for each in response.results_by_transaction
    }
    for question in questions:
        found = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in results.get(question.transaction.transactional_id, ())
            for each in topic.results_by_partition
        }
        yield _refused(question, found)


def _refused(question: _Question, found: Mapping[TopicPartition, int]) -> Refusals:
    refusals = {}
    for partition in question.partitions:
        # One that was not answered is not known to be in the transaction.
        code = found.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR.code)
        error = ErrorCode.of(code)
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH  # which producers expect here
        elif error is ErrorCode.TRANSACTION_ABORTABLE and not question.knowledge.is_abortable_known:
            error = ErrorCode.INVALID_TXN_STATE
        if error is not ErrorCode.NONE:
            refusals[partition] = error
    return refusals
