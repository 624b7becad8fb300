"""AddPartitionsToTxn requests to coordinators: many transactions at once, each to its own."""

import asyncio

import pytest

from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.router import Route
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.transactions.add_partitions_to_txn_manager import (
    AddPartitionsToTxnManager,
    ClientCapabilities,
    TransactionIdentity,
    verify_with_retries,
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
from odradek.storage.producer_state.verification_guards import VerificationGuard
from tests.support.calls import as_sent
from tests.support.loops import at_end, finish_in_virtual_time

FIRST, SECOND = Node(1, "one", 9092, None), Node(2, "two", 9092, None)
E0, E1 = TopicPartition("events", 0), TopicPartition("events", 1)
OLD, ABORTABLE, ADDING = (
    ClientCapabilities(),
    ClientCapabilities(supports_transaction_abortable=True),
    ClientCapabilities(True, True),
)


class Brokers:
    """Two coordinators: ids that begin with ``b`` belong to the second, and ``nobody`` has none.

    They respond with ``codes``, else 0, when ``gate`` is open.
    """

    def __init__(self):
        self.requests = []
        self.codes = {}
        self.error = 0
        self.send_error = None
        self.gate = asyncio.Event()
        self.gate.set()
        #: Released once for each request received.
        self.arrivals = asyncio.Semaphore(0)
        self.background = TaskRegistry()
        at_end(self.background.stop)
        self.verifier = AddPartitionsToTxnManager(
            self, self, listener="INSIDE", start_task=self.background.start
        )

    def coordinator(self, key, *, listener):
        assert listener == "INSIDE"
        if key == "nobody":
            raise CoordinatorNotAvailable
        return SECOND if key.startswith("b") else FIRST

    def client_for(self, node):
        self.node = node
        return self

    async def send(self, request, *, version):
        sent = as_sent(request, version=version)
        self.requests.append((self.node, sent))
        self.arrivals.release()
        await self.gate.wait()
        if self.send_error is not None:
            raise self.send_error
        return as_sent(self._response(sent), version=version)

    def _response(self, sent):
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

    async def verify(self, transactional_id="a", *partitions, capabilities=ABORTABLE, epoch=0):
        transaction = TransactionIdentity(transactional_id, 7, epoch)
        result = self.verifier.add_or_verify_transaction(
            transaction, partitions or (E0,), capabilities
        )
        return result if isinstance(result, dict) else await result


async def test_request_and_response_of_a_verification():
    brokers = Brokers()
    brokers.codes[E1] = ErrorCode.TRANSACTION_ABORTABLE.code
    assert await brokers.verify("a", E0, E1) == {E1: ErrorCode.TRANSACTION_ABORTABLE}
    ((node, sent),) = brokers.requests
    assert node is FIRST
    (transaction,) = sent.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
        "a",
        7,
        0,
    )
    assert transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("events", [0, 1])]


async def test_partitions_are_added_for_clients_that_leave_it_to_the_broker():
    brokers = Brokers()
    assert await brokers.verify(capabilities=ADDING) == {}
    assert not brokers.requests[0][1].transactions[0].verify_only


@pytest.mark.parametrize(
    ("received", "capabilities", "expected"),
    [
        ("PRODUCER_FENCED", ABORTABLE, "INVALID_PRODUCER_EPOCH"),
        ("TRANSACTION_ABORTABLE", OLD, "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", ABORTABLE, "TRANSACTION_ABORTABLE"),
        ("TRANSACTION_ABORTABLE", ADDING, "TRANSACTION_ABORTABLE"),
        ("INVALID_PRODUCER_ID_MAPPING", OLD, "INVALID_PRODUCER_ID_MAPPING"),
    ],
)
async def test_errors_are_mapped_to_what_the_client_supports(received, capabilities, expected):
    brokers = Brokers()
    brokers.codes[E0] = ErrorCode[received].code
    assert await brokers.verify(capabilities=capabilities) == {E0: ErrorCode[expected]}


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", "INVALID_TXN_STATE"),
        ("NOT_COORDINATOR", "NOT_COORDINATOR"),
    ],
)
async def test_top_level_error_applies_to_every_partition(received, expected):
    brokers = Brokers()
    brokers.error = ErrorCode[received].code
    assert await brokers.verify("a", E0, E1) == dict.fromkeys((E0, E1), ErrorCode[expected])


async def test_partition_missing_in_the_response_is_not_verified():
    brokers = Brokers()
    brokers._response = lambda sent: AddPartitionsToTxnResponse(throttle_time_ms=0)
    assert await brokers.verify() == {E0: ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), TimeoutError("late")])
async def test_connection_error_becomes_network_exception(error):
    brokers = Brokers()
    brokers.send_error = error
    assert await brokers.verify() == {E0: ErrorCode.NETWORK_EXCEPTION}
    brokers.send_error = None
    assert await brokers.verify() == {}


async def test_no_request_is_sent_without_a_coordinator():
    brokers = Brokers()
    assert await brokers.verify("nobody") == {E0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert not brokers.requests


async def test_verifications_during_a_request_share_the_next_one():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(brokers.verify("a1"))
        await brokers.arrivals.acquire()
        for name in ("a2", "b1", "a3"):
            tasks.create_task(brokers.verify(name))
        await brokers.arrivals.acquire()
        brokers.gate.set()
    sent = [
        (node.id, [each.transactional_id for each in request.transactions])
        for node, request in brokers.requests
    ]
    assert sent == [(1, ["a1"]), (2, ["b1"]), (1, ["a2", "a3"])]


async def test_one_transactional_id_has_one_request_in_flight():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(brokers.verify("a", E0))
        second = tasks.create_task(brokers.verify("a", E1))
        await brokers.arrivals.acquire()
        brokers.gate.set()
    assert first.result() == second.result() == {}
    partitions = [request.transactions[0].topics[0].partitions for _, request in brokers.requests]
    assert partitions == [[0], [1]]
    assert all(len(request.transactions) == 1 for _, request in brokers.requests)


async def test_cancelled_verification_does_not_affect_others():
    brokers = Brokers()
    brokers.gate.clear()
    gone = brokers.background.start(brokers.verify("a1"), "gone")
    other = brokers.background.start(brokers.verify("a2"), "other")
    await brokers.arrivals.acquire()
    gone.cancel()
    brokers.gate.set()
    assert await other == {}


async def test_stopping_the_broker_completes_all_verifications():
    brokers = Brokers()
    brokers.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first, second = (
            tasks.create_task(brokers.verify("a1")),
            tasks.create_task(brokers.verify("a1")),
        )
        await brokers.arrivals.acquire()
        await brokers.background.stop()
    for verification in (first, second):
        assert verification.result() == {E0: ErrorCode.NETWORK_EXCEPTION}


class GuardedPartition:
    """A partition with a guard that ``mark`` replaces, and a coordinator that returns ``errors``.

    The coordinator repeats its last error.
    """

    def __init__(self, *errors, marks=()):
        self.guard = VerificationGuard()
        self.errors = list(errors)
        self.marks = set(marks)
        self.count = 0

    def mark(self):
        self.guard = VerificationGuard()

    def begin(self):
        return {} if self.guard is None else {E0: self.guard}

    async def verify(self, partitions):
        assert partitions == [E0]
        self.count += 1
        if self.count in self.marks:
            self.mark()
        error = self.errors[min(self.count, len(self.errors)) - 1]
        return {E0: ErrorCode[error]} if error else {}

    def verify_all(self):
        return finish_in_virtual_time(self._verify_all())

    async def _verify_all(self):
        result = verify_with_retries(self.begin, self.verify)
        return result if isinstance(result, tuple) else await result()


ENDING = "CONCURRENT_TRANSACTIONS"


def test_concurrent_transactions_is_retried_for_a_while():
    scene = GuardedPartition(ENDING)
    assert scene.verify_all()[1] == {E0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert scene.count == 10  # after 0, 1, 3, 7, 15, 31, 51, 71, 91 and 111 ms


def test_marker_of_the_ending_transaction_replaces_the_guard():
    scene = GuardedPartition(ENDING, ENDING, None, marks=[2])
    first = scene.guard
    assert scene.verify_all() == ({E0: scene.guard}, {})
    assert scene.guard is not first
    assert scene.count == 3


def test_marker_during_the_verification_repeats_it():
    scene = GuardedPartition(None, "TRANSACTION_ABORTABLE", marks=[1])
    assert scene.verify_all()[1] == {E0: ErrorCode.TRANSACTION_ABORTABLE}
    assert scene.count == 2


def test_verification_is_repeated_once():
    scene = GuardedPartition(None, marks=range(9))
    guards, errors = scene.verify_all()
    assert errors == {}
    assert guards[E0] is not scene.guard
    assert scene.count == 2


def test_nothing_is_verified_without_a_guard():
    scene = GuardedPartition(None)
    scene.guard = None
    assert scene.verify_all() == ({}, {})
    assert scene.count == 0


@pytest.mark.parametrize("errors", [{}, {E0: ErrorCode.INVALID_TXN_STATE}])
def test_local_result_is_returned_synchronously(errors):
    scene = GuardedPartition()
    assert verify_with_retries(scene.begin, lambda partitions: errors) == (
        {E0: scene.guard},
        errors,
    )


def test_local_concurrent_transactions_is_retried():
    results = iter([{E0: ErrorCode.CONCURRENT_TRANSACTIONS}, {}])
    scene = GuardedPartition()
    retry = verify_with_retries(scene.begin, lambda partitions: next(results))
    assert finish_in_virtual_time(retry()) == ({E0: scene.guard}, {})


class LocalCoordinator:
    """This broker as its own client: responds at once, or when the test says so."""

    def __init__(self):
        self.waiting = None
        self.background = TaskRegistry()
        at_end(self.background.stop)
        self.client = LoopbackClient(
            lambda: {
                ApiKey.ADD_PARTITIONS_TO_TXN: Route(ApiKey.ADD_PARTITIONS_TO_TXN, self.handle)
            },
            client_id="1",
            listener="INSIDE",
            start_task=self.background.start,
        )
        self.verifier = AddPartitionsToTxnManager(
            self, self, listener="INSIDE", start_task=self.background.start
        )

    def coordinator(self, key, *, listener):
        return FIRST

    def client_for(self, node):
        return self.client

    def close(self):
        self.client.close()

    def handle(self, request):
        assert (request.version, request.context.is_from_this_broker) == (5, True)
        return self._response(request) if self.waiting is None else self._respond_later(request)

    def _response(self, request):
        (transaction,) = request.body.transactions
        partition = AddPartitionsToTxnPartitionResult(
            partition_index=0, partition_error_code=ErrorCode.PRODUCER_FENCED.code
        )
        topic = AddPartitionsToTxnTopicResult(name="events", results_by_partition=[partition])
        result = AddPartitionsToTxnResponse.TransactionResult(
            transactional_id=transaction.transactional_id, topic_results=[topic]
        )
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_transaction=[result])

    async def _respond_later(self, request):
        await self.waiting
        return self._response(request)

    def verify(self):
        return self.verifier.add_or_verify_transaction(
            TransactionIdentity("a", 7, 0), [E0], ABORTABLE
        )


async def test_local_coordinator_needs_no_connection():
    assert LocalCoordinator().verify() == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_local_coordinator_may_respond_later():
    local = LocalCoordinator()
    local.waiting = asyncio.get_running_loop().create_future()
    result = local.verify()
    local.waiting.set_result(None)
    assert await result == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_closed_manager_returns_network_exception():
    local = LocalCoordinator()
    local.verifier.close()
    assert local.verify() == {E0: ErrorCode.NETWORK_EXCEPTION}


async def test_queues_of_idle_coordinators_are_removed():
    brokers = Brokers()
    brokers.gate.clear()
    verifications = [brokers.background.start(brokers.verify(name)) for name in ("a", "b")]
    for _ in verifications:
        await brokers.arrivals.acquire()
    assert {*brokers.verifier._queues} == {FIRST, SECOND}
    brokers.gate.set()
    await asyncio.gather(*verifications)
    await asyncio.sleep(0)
    assert not brokers.verifier._queues
