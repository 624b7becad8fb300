"""Transaction steps that wait for replication: a step takes effect even if nothing waits for it."""

from types import SimpleNamespace

import pytest

from odradek.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
)
from odradek.broker.request import DelayedOperation
from odradek.broker.transactions.transaction_state import TransactionState
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, RequestTimedOut
from odradek.protocol.types import TopicPartition
from tests.support.calls import as_sent, called, in_the_end
from tests.support.transaction_scene import scene
from tests.support.transactions import ID, OURS, TIMEOUT_MS, transaction
from tests.support.wire_client import error_codes

__all__ = ["scene"]

GROUPS = SimpleNamespace(partition_for=lambda group_id: 0)
CLUSTER = SimpleNamespace(has_partition=lambda topic, partition: True)
PRODUCER = {"transactional_id": ID, "producer_id": OURS.id, "producer_epoch": OURS.epoch}
TOPICS = [AddPartitionsToTxnTopic(name="other", partitions=[0])]
TRANSACTIONS = [AddPartitionsToTxnRequest.Transaction(**PRODUCER, topics=TOPICS)]
PRODUCER_V3 = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}

#: Handler, request and version of each step.
STEPS = {
    "init": (
        lambda scene, request: init_producer_id.handle(scene.ids, scene.coordinator, request),
        InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=TIMEOUT_MS),
        5,
    ),
    "add": (
        lambda scene, request: add_partitions_to_txn.handle(scene.coordinator, CLUSTER, request),
        AddPartitionsToTxnRequest(**PRODUCER_V3, v3_and_below_topics=TOPICS),
        3,
    ),
    "add by a broker": (
        lambda scene, request: add_partitions_to_txn.handle(scene.coordinator, CLUSTER, request),
        AddPartitionsToTxnRequest(transactions=TRANSACTIONS),
        5,
    ),
    "add offsets": (
        lambda scene, request: add_offsets_to_txn.handle(scene.coordinator, GROUPS, request),
        AddOffsetsToTxnRequest(**PRODUCER, group_id="readers"),
        4,
    ),
    "end": (
        lambda scene, request: end_txn.handle(scene.coordinator, request),
        EndTxnRequest(**PRODUCER, committed=True),
        5,
    ),
}
EXPECTED_STATES = {
    "init": TransactionState.EMPTY,
    "add": TransactionState.ONGOING,
    "add by a broker": TransactionState.ONGOING,
    "add offsets": TransactionState.ONGOING,
    "end": TransactionState.COMPLETE_COMMIT,
}


@pytest.fixture(params=STEPS)
def step(request, scene):
    """Start a step, which is delayed and has not changed the transaction yet."""
    handle, body, version = STEPS[request.param]
    is_open = request.param == "end"
    events = frozenset({TopicPartition("events", 0)})
    before = transaction(TransactionState.ONGOING, partitions=events) if is_open else transaction()
    scene.put(before)
    scene.log.is_held = True
    response = scene.run(run_on_the_loop(lambda: handle(scene, called(body, version=version))))
    assert isinstance(response, DelayedOperation)
    assert scene.shard.transactions[ID] is before
    return SimpleNamespace(response=response, version=version, after=EXPECTED_STATES[request.param])


async def run_on_the_loop(handle):
    return handle()


def codes(scene, step):
    async def wait():
        return await in_the_end(step.response)

    return error_codes(as_sent(scene.run(wait()), version=step.version))


def test_step_is_answered_when_it_is_replicated(scene, step):
    scene.log.release()
    scene.pass_ms(1)
    assert codes(scene, step) == {ErrorCode.NONE.code}
    assert scene.shard.transactions[ID].state is step.after


def test_step_takes_effect_although_its_client_has_gone(scene, step):
    scene.log.release()
    scene.pass_ms(1)
    assert scene.shard.transactions[ID].state is step.after


def test_step_not_replicated_in_time_returns_an_error_and_has_no_effect(scene, step):
    before = scene.shard.transactions[ID]
    scene.log.release(RequestTimedOut())
    scene.pass_ms(1)
    assert scene.shard.transactions[ID] is before
    assert not scene.shard.has_pending_transition(ID)
    try:
        returned = codes(scene, step)
    except KafkaError as error:  # the router rejects the whole request
        returned = {error.error_code.code}
    assert returned - {ErrorCode.NONE.code} == {ErrorCode.COORDINATOR_NOT_AVAILABLE.code}
