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
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.turns import Turn
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError
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


@dataclass(slots=True, eq=False)
class _Question:
    transaction: ClaimedTransaction
    partitions: Sequence[TopicPartition]
    knowledge: Knowledge
    answer: asyncio.Future[Refusals]

    def refuse(self, error: ErrorCode) -> None:
        self.tell(dict.fromkeys(self.partitions, error))

    def tell(self, refusals: Refusals) -> None:
        if not self.answer.done():  # whoever asked may have gone
            self.answer.set_result(refusals)


@dataclass(slots=True)
class _Line:
    """To one coordinator."""

    questions: list[_Question] = field(default_factory=list)
    is_busy: bool = False


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
        start: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """``listener`` is the one by which brokers speak to each other."""
        self._coordinators = coordinators
        self._clients = clients
        self._listener = listener
        self._start = start
        self._lines: dict[Node, _Line] = {}

    def close(self) -> None:
        """Whoever still waits is told that nobody answered."""
        self._clients.close()

    async def ask(
        self,
        transaction: ClaimedTransaction,
        partitions: Sequence[TopicPartition],
        knowledge: Knowledge,
    ) -> Refusals:
        """Never raises."""
        transactional_id = transaction.transactional_id
        try:
            node = self._coordinators.coordinator(transactional_id, listener=self._listener)
        except KafkaError as failure:
            return dict.fromkeys(partitions, failure.error)
        answer: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(node, _Line())
        line.questions.append(_Question(transaction, partitions, knowledge, answer))
        if not line.is_busy:
            line.is_busy = True
            self._start(self._work(line, node), f"transactions verified by broker {node.id}")
        return await answer

    async def _work(self, line: _Line, node: Node) -> None:
        asked: list[_Question] = []
        turn = Turn()
        try:
            while line.questions:
                asked, line.questions = _of_different_ids(line.questions)
                await self._send(asked, node)
                if turn.is_over:  # this broker answers itself without a pause
                    await turn.next()
        finally:
            # Nobody waits for ever, whatever happens here.
            line.is_busy = False
            _refuse_all([*asked, *line.questions], ErrorCode.NETWORK_EXCEPTION)
            line.questions = []

    async def _send(self, asked: Sequence[_Question], node: Node) -> None:
        request = AddPartitionsToTxnRequest(transactions=[*map(_entry, asked)])
        try:
            answer = await self._clients.to(node).send(request, version=VERSION)
        except (OSError, DecodeError) as failure:
            log.warning("Broker %d did not say which transactions are open: %s", node.id, failure)
            _refuse_all(asked, ErrorCode.NETWORK_EXCEPTION)
            return
        assert isinstance(answer, AddPartitionsToTxnResponse), answer
        _tell_all(asked, answer)


async def verified(
    begin: Callable[[], Guards], ask: Callable[[Sequence[TopicPartition]], Awaitable[Refusals]]
) -> tuple[Guards, Refusals]:
    """The guards that ``begin`` gave last, and what was said of their partitions.

    It is asked again, though not for long, while the producer's last transaction is about to end.
    The marker that ends it takes guards away.  So each question has guards of its own, and if a
    marker came between the question and the answer, the answer may be about what was before it.
    """
    loop = asyncio.get_running_loop()
    give_up_at, retry_s, is_second_word = loop.time() + RETRIES_S, RETRY_MIN_S, False
    while guards := begin():
        refusals = await ask([*guards])
        if ErrorCode.CONCURRENT_TRANSACTIONS in refusals.values() and loop.time() < give_up_at:
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)
        elif refusals or is_second_word or begin() == guards:
            return guards, refusals
        else:
            is_second_word = True
    return {}, {}


def _of_different_ids(questions: Sequence[_Question]) -> tuple[list[_Question], list[_Question]]:
    """Those that go together now, and those that come after them."""
    first: dict[str, _Question] = {}
    for question in questions:
        first.setdefault(question.transaction.transactional_id, question)
    later = [each for each in questions if first[each.transaction.transactional_id] is not each]
    return [*first.values()], later


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


def _refuse_all(asked: Sequence[_Question], error: ErrorCode) -> None:
    for question in asked:
        question.refuse(error)


def _tell_all(asked: Sequence[_Question], answer: AddPartitionsToTxnResponse) -> None:
    error = ErrorCode.of(answer.error_code)
    if error is not ErrorCode.NONE:
        # That a broker may not ask is nothing that its clients know of.
        unverified = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        _refuse_all(asked, ErrorCode.INVALID_TXN_STATE if unverified else error)
        return
    results = {each.transactional_id: each.topic_results for each in answer.results_by_transaction}
    for question in asked:
        found = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in results.get(question.transaction.transactional_id, ())
            for each in topic.results_by_partition
        }
        question.tell(_refusals(question, found))


def _refusals(question: _Question, found: Mapping[TopicPartition, int]) -> Refusals:
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
