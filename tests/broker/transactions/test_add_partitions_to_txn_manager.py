"""Coordinators are asked which transactions are open: many at once, each by its own."""

import asyncio

import pytest

from odradek.broker.background import Background
from odradek.broker.metadata.picture import Node
from odradek.broker.own_client import OwnClient
from odradek.broker.router import Route
from odradek.broker.transactions.verification import (
    ClaimedTransaction,
    Knowledge,
    Verifier,
    verified,
)
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import CoordinatorNotAvailable
from odradek.protocol.types import TopicPartition
from odradek.storage.producers.verification_guards import VerificationGuard
from tests.support.calls import as_sent
from tests.support.loops import at_end, finish_in_virtual_time

FIRST, SECOND = Node(1, "one", 9092, None), Node(2, "two", 9092, None)
E0, E1 = TopicPartition("events", 0), TopicPartition("events", 1)
OLD, ABORTABLE, ADDING = Knowledge(), Knowledge(is_abortable_known=True), Knowledge(True, True)


class Brokers:
    """Two coordinators: ids that begin with ``b`` are the second's, and nobody has ``nobody``.

    What they answer is by ``codes``, else 0; while ``gate`` is shut they take their time.
    """

    def __init__(self):
        self.requests = []
        self.codes = {}
        self.error = 0
        self.failure = None
        self.gate = asyncio.Event()
        self.gate.set()
        #: One for each request that has come.
        self.arrivals = asyncio.Semaphore(0)
        self.background = Background()
        at_end(self.background.stop)
        self.verifier = Verifier(self, self, listener="INSIDE", start=self.background.start)

    def coordinator(self, key, *, listener):
        assert listener == "INSIDE"
        if key == "nobody":
            raise CoordinatorNotAvailable
        return SECOND if key.startswith("b") else FIRST

    def to(self, node):
        self.node = node
        return self

    async def send(self, request, *, version):
        sent = as_sent(request, version=version)
        self.requests.append((self.node, sent))
        self.arrivals.release()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return as_sent(self._answer(sent), version=version)

    def _answer(self, sent):
        results = [
            AddPartitionsToTxnResponse.TransactionResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=self.codes.get((topic.name, index), 0),
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in sent.transactions
        ]
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0, error_code=self.error, results_by_transaction=results
        )

    async def ask(self, transactional_id="a", *partitions, knowledge=ABORTABLE, epoch=0):
        transaction = ClaimedTransaction(transactional_id, 7, epoch)
        answer = self.verifier.ask(transaction, partitions or (E0,), knowledge)
        return answer if isinstance(answer, dict) else await answer


async def test_what_is_asked_and_what_is_answered():
    brokers = Brokers()
    brokers.codes[E1] = ErrorCode.TRANSACTION_ABORTABLE.code
    assert await brokers.ask("a", E0, E1) == {E1: ErrorCode.TRANSACTION_ABORTABLE}
    ((node, sent),) = brokers.requests
    assert node is FIRST
    (asked,) = sent.transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("a", 7, 0)
    assert asked.verify_only
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("events", [0, 1])]


async def test_partitions_are_added_for_whoever_leaves_that_to_the_broker():
    brokers = Brokers()
    assert await brokers.ask(knowledge=ADDING) == {}
    assert not brokers.requests[0][1].transactions[0].verify_only


@pytest.mark.parametrize(
    ("said", "knowledge", "expected"),
    [
        ("PRODUCER_FENCED", ABORTABLE, "INVALID_PRODUCER_EPOCH"),
        ("TRANSACTION_ABORTABLE", OLD, "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", ABORTABLE, "TRANSACTION_ABORTABLE"),
        ("TRANSACTION_ABORTABLE", ADDING, "TRANSACTION_ABORTABLE"),
        ("INVALID_PRODUCER_ID_MAPPING", OLD, "INVALID_PRODUCER_ID_MAPPING"),
    ],
)
async def test_errors_are_told_as_clients_know_them(said, knowledge, expected):
    brokers = Brokers()
    brokers.codes[E0] = ErrorCode[said].code
    assert await brokers.ask(knowledge=knowledge) == {E0: ErrorCode[expected]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", "INVALID_TXN_STATE"),
        ("NOT_COORDINATOR", "NOT_COORDINATOR"),
    ],
)
async def test_an_error_of_the_whole_answer_is_every_partitions(said, expected):
    brokers = Brokers()
    brokers.error = ErrorCode[said].code
    assert await brokers.ask("a", E0, E1) == dict.fromkeys((E0, E1), ErrorCode[expected])


async def test_a_partition_that_is_not_answered_is_not_verified():
    brokers = Brokers()
    brokers._answer = lambda sent: AddPartitionsToTxnResponse(throttle_time_ms=0)
    assert await brokers.ask() == {E0: ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("failure", [ConnectionResetError("gone"), TimeoutError("late")])
async def test_a_coordinator_that_does_not_answer(failure):
    brokers = Brokers()
    brokers.failure = failure
    assert await brokers.ask() == {E0: ErrorCode.NETWORK_EXCEPTION}
    brokers.failure = None
    assert await brokers.ask() == {}


async def test_without_a_coordinator_nobody_is_asked():
    brokers = Brokers()
    assert await brokers.ask("nobody") == {E0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert not brokers.requests


async def test_what_is_asked_meanwhile_goes_together_in_the_next_request():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as asking:
        asking.create_task(brokers.ask("a1"))
        await brokers.arrivals.acquire()
        for name in ("a2", "b1", "a3"):
            asking.create_task(brokers.ask(name))
        await brokers.arrivals.acquire()
        brokers.gate.set()
    sent = [
        (node.id, [each.transactional_id for each in request.transactions])
        for node, request in brokers.requests
    ]
    assert sent == [(1, ["a1"]), (2, ["b1"]), (1, ["a2", "a3"])]


async def test_of_one_id_there_is_one_question_at_a_time():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as asking:
        first = asking.create_task(brokers.ask("a", E0))
        second = asking.create_task(brokers.ask("a", E1))
        await brokers.arrivals.acquire()
        brokers.gate.set()
    assert first.result() == second.result() == {}
    partitions = [request.transactions[0].topics[0].partitions for _, request in brokers.requests]
    assert partitions == [[0], [1]]
    assert all(len(request.transactions) == 1 for _, request in brokers.requests)


async def test_whoever_goes_away_leaves_the_others_their_answers():
    brokers = Brokers()
    brokers.gate.clear()
    gone = brokers.background.start(brokers.ask("a1"), "gone")
    other = brokers.background.start(brokers.ask("a2"), "other")
    await brokers.arrivals.acquire()
    gone.cancel()
    brokers.gate.set()
    assert await other == {}


async def test_when_the_broker_stops_nobody_waits_for_ever():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as asking:
        first, second = asking.create_task(brokers.ask("a1")), asking.create_task(brokers.ask("a1"))
        await brokers.arrivals.acquire()
        await brokers.background.stop()
    for asked in (first, second):
        assert asked.result() == {E0: ErrorCode.NETWORK_EXCEPTION}


class Beginning:
    """A partition with a guard, which ``mark`` takes away, and a coordinator that says ``words``.

    The last of its words it says again and again.
    """

    def __init__(self, *words, marks=()):
        self.guard = VerificationGuard()
        self.words = list(words)
        self.marks = set(marks)
        self.count = 0

    def mark(self):
        self.guard = VerificationGuard()

    def begin(self):
        return {} if self.guard is None else {E0: self.guard}

    async def ask(self, partitions):
        assert partitions == [E0]
        self.count += 1
        if self.count in self.marks:
            self.mark()
        word = self.words[min(self.count, len(self.words)) - 1]
        return {E0: ErrorCode[word]} if word else {}

    def told(self):
        return finish_in_virtual_time(self._told())

    async def _told(self):
        known = verified(self.begin, self.ask)
        return known if isinstance(known, tuple) else await known()


ENDING = "CONCURRENT_TRANSACTIONS"


def test_a_transaction_that_is_about_to_end_is_asked_about_again_for_a_while():
    beginning = Beginning(ENDING)
    assert beginning.told()[1] == {E0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert beginning.count == 10  # after 0, 1, 3, 7, 15, 31, 51, 71, 91 and 111 ms


def test_when_it_has_ended_its_marker_has_taken_the_first_guard_away():
    beginning = Beginning(ENDING, ENDING, None, marks=[2])
    first = beginning.guard
    assert beginning.told() == ({E0: beginning.guard}, {})
    assert beginning.guard is not first
    assert beginning.count == 3


def test_a_marker_between_question_and_answer_makes_it_asked_again():
    beginning = Beginning(None, "TRANSACTION_ABORTABLE", marks=[1])
    assert beginning.told()[1] == {E0: ErrorCode.TRANSACTION_ABORTABLE}
    assert beginning.count == 2


def test_but_only_once():
    beginning = Beginning(None, marks=range(9))
    guards, refusals = beginning.told()
    assert refusals == {}
    assert guards[E0] is not beginning.guard
    assert beginning.count == 2


def test_where_nobody_has_to_be_asked_nobody_is():
    beginning = Beginning(None)
    beginning.guard = None
    assert beginning.told() == ({}, {})
    assert beginning.count == 0


@pytest.mark.parametrize("refusals", [{}, {E0: ErrorCode.INVALID_TXN_STATE}])
def test_what_this_broker_can_tell_is_known_at_once(refusals):
    beginning = Beginning()
    assert verified(beginning.begin, lambda asked: refusals) == ({E0: beginning.guard}, refusals)


def test_but_what_is_about_to_end_is_asked_about_again():
    answers = iter([{E0: ErrorCode.CONCURRENT_TRANSACTIONS}, {}])
    beginning = Beginning()
    later = verified(beginning.begin, lambda asked: next(answers))
    assert finish_in_virtual_time(later()) == ({E0: beginning.guard}, {})


class Here:
    """This broker, as its own client: answers at once, or when the test says so."""

    def __init__(self):
        self.waiting = None
        self.background = Background()
        at_end(self.background.stop)
        self.client = OwnClient(
            lambda: {
                ApiKey.ADD_PARTITIONS_TO_TXN: Route(ApiKey.ADD_PARTITIONS_TO_TXN, self.handle)
            },
            client_id="1",
            listener="INSIDE",
            start=self.background.start,
        )
        self.verifier = Verifier(self, self, listener="INSIDE", start=self.background.start)

    def coordinator(self, key, *, listener):
        return FIRST

    def to(self, node):
        return self.client

    def close(self):
        self.client.close()

    def handle(self, call):
        assert (call.version, call.peer.is_own) == (5, True)
        return self._answer(call) if self.waiting is None else self._answer_later(call)

    def _answer(self, call):
        (asked,) = call.request.transactions
        line = AddPartitionsToTxnPartitionResult(
            partition_index=0, partition_error_code=ErrorCode.PRODUCER_FENCED.code
        )
        told = AddPartitionsToTxnTopicResult(name="events", results_by_partition=[line])
        result = AddPartitionsToTxnResponse.TransactionResult(
            transactional_id=asked.transactional_id, topic_results=[told]
        )
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_transaction=[result])

    async def _answer_later(self, call):
        await self.waiting
        return self._answer(call)

    def ask(self):
        return self.verifier.ask(ClaimedTransaction("a", 7, 0), [E0], ABORTABLE)


async def test_a_coordinator_here_is_asked_without_a_connection():
    assert Here().ask() == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_a_coordinator_here_may_have_to_wait_too():
    here = Here()
    here.waiting = asyncio.get_running_loop().create_future()
    answer = here.ask()
    here.waiting.set_result(None)
    assert await answer == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_when_this_broker_stops_nobody_answers():
    here = Here()
    here.verifier.close()
    assert here.ask() == {E0: ErrorCode.NETWORK_EXCEPTION}


async def test_nothing_is_kept_of_brokers_that_were_asked():
    brokers = Brokers()
    brokers.gate.clear()
    asking = [brokers.background.start(brokers.ask(name)) for name in ("a", "b")]
    for _ in asking:
        await brokers.arrivals.acquire()
    assert {*brokers.verifier._lines} == {FIRST, SECOND}
    brokers.gate.set()
    await asyncio.gather(*asking)
    await asyncio.sleep(0)
    assert not brokers.verifier._lines
