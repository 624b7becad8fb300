"""Handlers of transactions: requests of every version to the coordinator, and its answers back."""

from types import SimpleNamespace

import pytest

from odradek.broker import turns
from odradek.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
)
from odradek.broker.transactions.transaction_state import State
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import TopicPartition
from tests.support.calls import as_sent, called, versions_of
from tests.support.transaction_scene import FIRST_ID, ask, scene
from tests.support.transactions import ID, OURS, TIMEOUT_MS, transaction

__all__ = ["scene"]


class Cluster:
    """Has two partitions of ``events``, and one of the offsets."""

    def has_partition(self, topic, partition):
        return (topic, partition) in {("events", 0), ("events", 1), ("__consumer_offsets", 0)}


def name(code):
    return ErrorCode.of(code).name


def fenced(version, since):
    """As clients know it."""
    return "PRODUCER_FENCED" if version >= since else "INVALID_PRODUCER_EPOCH"


# InitProducerId

INIT_VERSIONS = range(6)


def init(scene, version, transactional_id=ID, *, timeout_ms=TIMEOUT_MS, producer=(-1, -1)):
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    answer = ask(scene, init_producer_id, scene.ids, scene.coordinator, request, version=version)
    return name(answer.error_code), (answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_a_transactional_producer_gets_its_epoch(scene, version):
    assert init(scene, version) == ("NONE", (FIRST_ID, 0))
    assert init(scene, version) == ("NONE", (FIRST_ID, 1))


@pytest.mark.parametrize("version", INIT_VERSIONS)
@pytest.mark.parametrize("is_empty", [False, True])
def test_an_idempotent_one_gets_an_id_and_nothing_is_written(scene, version, is_empty):
    scene.ids.is_empty = is_empty
    assert init(scene, version, None) == ("NONE", (FIRST_ID, 0))
    assert init(scene, version, None, timeout_ms=0) == ("NONE", (FIRST_ID + 1, 0))
    assert scene.log.end_offset == 0


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_what_is_no_request_is_refused(scene, version):
    nobody = (-1, -1)
    assert init(scene, version, "") == ("INVALID_REQUEST", nobody)
    assert init(scene, version, timeout_ms=0) == ("INVALID_TRANSACTION_TIMEOUT", nobody)
    if version >= 3:
        assert init(scene, version, producer=(5, -1)) == ("INVALID_REQUEST", nobody)
        assert init(scene, version, producer=(-1, 5)) == ("INVALID_REQUEST", nobody)


@pytest.mark.parametrize("version", range(3, 6))
def test_a_producer_goes_on_with_the_next_epoch_and_a_zombie_is_told_in_words_it_knows(
    scene, version
):
    scene.put(transaction(State.COMPLETE_ABORT))
    assert init(scene, version, producer=OURS) == ("NONE", (OURS.id, OURS.epoch + 1))
    assert init(scene, version, producer=(OURS.id, 1)) == (fenced(version, 4), (-1, -1))


# AddPartitionsToTxn


def topics(**partitions):
    return [
        AddPartitionsToTxnTopic(name=each, partitions=list(of)) for each, of in partitions.items()
    ]


def add(scene, version, *, producer=OURS, transactional_id=ID, verify=False, **partitions):
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics(**partitions),
        )
    else:
        asked = AddPartitionsToTxnRequest.Transaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify,
            topics=topics(**partitions),
        )
        request = AddPartitionsToTxnRequest(transactions=[asked])
    answer = ask(
        scene, add_partitions_to_txn, scene.coordinator, Cluster(), request, version=version
    )
    if version < 4:
        return of_topics(answer.results_by_topic_v3_and_below)
    (result,) = answer.results_by_transaction
    assert (answer.error_code, result.transactional_id) == (0, transactional_id)
    return of_topics(result.topic_results)


def of_topics(results):
    return {
        f"{topic.name}-{line.partition_index}": name(line.partition_error_code)
        for topic in results
        for line in topic.results_by_partition
    }


ADD_VERSIONS = versions_of(AddPartitionsToTxnRequest)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_partitions_are_added(scene, version):
    scene.put(transaction())
    assert add(scene, version, events=[0, 1]) == {"events-0": "NONE", "events-1": "NONE"}
    txn = scene.shard.transactions[ID]
    assert (txn.state, len(txn.partitions)) == (State.ONGOING, 2)
    assert txn.client_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_one_that_is_not_there_keeps_out_all_others(scene, version):
    scene.put(transaction())
    assert add(scene, version, events=[0, 7], what=[0]) == {
        "events-0": "OPERATION_NOT_ATTEMPTED",
        "events-7": "UNKNOWN_TOPIC_OR_PARTITION",
        "what-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert scene.state() == "Empty"


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_only_brokers_add_partitions_of_internal_topics(scene, version):
    scene.put(transaction())
    expected = "NONE" if version >= 4 else "TOPIC_AUTHORIZATION_FAILED"
    added = add(scene, version, __consumer_offsets=[0], events=[0])
    assert added["__consumer_offsets-0"] == expected
    assert added["events-0"] == ("NONE" if version >= 4 else "OPERATION_NOT_ATTEMPTED")


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_what_the_coordinator_refuses_is_told_of_every_partition(scene, version):
    scene.put(transaction())
    refused = add(scene, version, producer=(OURS.id, 1), events=[0, 1])
    assert refused == dict.fromkeys(["events-0", "events-1"], fenced(version, 2))
    assert add(scene, version, producer=(1, 1), events=[0]) == {
        "events-0": "INVALID_PRODUCER_ID_MAPPING"
    }
    assert add(scene, version, transactional_id="", events=[0]) == {"events-0": "INVALID_REQUEST"}


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_many_partitions_are_looked_at_in_turns(scene, version, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    scene.put(transaction())
    many = range(turns.FEW + 1)
    rounds = scene.loop.rounds
    refused = add(scene, version, what=many)
    assert refused == {f"what-{each}": "UNKNOWN_TOPIC_OR_PARTITION" for each in many}
    assert scene.loop.rounds - rounds > len(many)


@pytest.mark.parametrize("version", [4, 5])
def test_who_only_verifies_adds_nothing(scene, version):
    scene.put(transaction(State.ONGOING, partitions=frozenset({TopicPartition("events", 0)})))
    end_offset = scene.log.end_offset
    assert add(scene, version, verify=True, events=[0, 1]) == {
        "events-0": "NONE",
        "events-1": "TRANSACTION_ABORTABLE",
    }
    assert add(scene, version, verify=True, producer=(OURS.id, 1), events=[0]) == {
        "events-0": "PRODUCER_FENCED"
    }
    assert add(scene, version, verify=True, events=[0], gone=[0]) == {
        "events-0": "OPERATION_NOT_ATTEMPTED",
        "gone-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert scene.log.end_offset == end_offset


@pytest.mark.parametrize("version", [4, 5])
def test_each_transaction_of_a_batch_fares_alone(scene, version):
    scene.put(transaction())
    asked = [
        AddPartitionsToTxnRequest.Transaction(
            transactional_id=each,
            producer_id=OURS.id,
            producer_epoch=OURS.epoch,
            topics=topics(events=[0]),
        )
        for each in (ID, "nobody")
    ]
    request = AddPartitionsToTxnRequest(transactions=asked)
    answer = ask(
        scene, add_partitions_to_txn, scene.coordinator, Cluster(), request, version=version
    )
    assert {
        each.transactional_id: of_topics(each.topic_results)
        for each in answer.results_by_transaction
    } == {
        ID: {"events-0": "NONE"},
        "nobody": {"events-0": "INVALID_PRODUCER_ID_MAPPING"},
    }


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_all_of_it_can_be_refused(version):
    request = AddPartitionsToTxnRequest(v3_and_below_topics=topics(events=[0, 1]))
    if version >= 4:
        request = AddPartitionsToTxnRequest(transactions=[])
    call = called(request, version=version)
    answer = as_sent(add_partitions_to_txn.refused(call, KafkaStorageError()), version=version)
    if version >= 4:
        assert name(answer.error_code) == "KAFKA_STORAGE_ERROR"
    else:
        codes = of_topics(answer.results_by_topic_v3_and_below)
        assert codes == dict.fromkeys(["events-0", "events-1"], "KAFKA_STORAGE_ERROR")


# AddOffsetsToTxn


@pytest.mark.parametrize("version", versions_of(AddOffsetsToTxnRequest))
def test_the_offsets_of_a_group_are_added_as_their_partition(scene, version):
    scene.put(transaction())
    groups = SimpleNamespace(partition_of=lambda group_id: {"readers": 17}[group_id])

    def added(epoch=OURS.epoch):
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=OURS.id, producer_epoch=epoch, group_id="readers"
        )
        answer = ask(scene, add_offsets_to_txn, scene.coordinator, groups, request, version=version)
        return name(answer.error_code)

    assert added() == "NONE"
    assert scene.shard.transactions[ID].partitions == {TopicPartition("__consumer_offsets", 17)}
    assert added(epoch=1) == fenced(version, 2)


# EndTxn


def end(scene, version, *, producer=OURS, committed=True):
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    answer = ask(scene, end_txn, scene.coordinator, request, version=version)
    return name(answer.error_code), (answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends(scene, version, committed):
    scene.put(transaction(State.ONGOING))
    after = (OURS.id, OURS.epoch + 1) if version >= 5 else (-1, -1)
    assert end(scene, version, committed=committed) == ("NONE", after)
    scene.pass_ms(1)
    assert scene.state() == ("CompleteCommit" if committed else "CompleteAbort")
    assert end(scene, version, committed=committed) == ("NONE", after)


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
def test_who_may_not_end_it_is_told_in_words_it_knows(scene, version):
    scene.put(transaction(State.ONGOING))
    assert end(scene, version, producer=(OURS.id, 1)) == (fenced(version, 2), (-1, -1))
    assert end(scene, version, producer=(1, 1)) == ("INVALID_PRODUCER_ID_MAPPING", (-1, -1))
