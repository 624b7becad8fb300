"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, in every version."""

from types import SimpleNamespace

import pytest

from odradek.broker import time_slice
from odradek.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
)
from odradek.broker.transactions.transaction_state import TransactionState
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
    """Has two partitions of ``events`` and one of ``__consumer_offsets``."""

    def has_partition(self, topic, partition):
        return (topic, partition) in {("events", 0), ("events", 1), ("__consumer_offsets", 0)}


def name(code):
    return ErrorCode.for_code(code).name


def fenced(version, since):
    """Return the fencing error that clients of this version know."""
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
    response = ask(scene, init_producer_id, scene.ids, scene.coordinator, request, version=version)
    return name(response.error_code), (response.producer_id, response.producer_epoch)


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_transactional_producer_gets_its_epoch(scene, version):
    assert init(scene, version) == ("NONE", (FIRST_ID, 0))
    assert init(scene, version) == ("NONE", (FIRST_ID, 1))


@pytest.mark.parametrize("version", INIT_VERSIONS)
@pytest.mark.parametrize("is_empty", [False, True])
def test_idempotent_producer_gets_an_id_and_nothing_is_appended(scene, version, is_empty):
    scene.ids.is_empty = is_empty
    assert init(scene, version, None) == ("NONE", (FIRST_ID, 0))
    assert init(scene, version, None, timeout_ms=0) == ("NONE", (FIRST_ID + 1, 0))
    assert scene.log.log_end_offset == 0


@pytest.mark.parametrize("version", INIT_VERSIONS)
def test_invalid_request_is_rejected(scene, version):
    no_producer = (-1, -1)
    assert init(scene, version, "") == ("INVALID_REQUEST", no_producer)
    assert init(scene, version, timeout_ms=0) == ("INVALID_TRANSACTION_TIMEOUT", no_producer)
    if version >= 3:
        assert init(scene, version, producer=(5, -1)) == ("INVALID_REQUEST", no_producer)
        assert init(scene, version, producer=(-1, 5)) == ("INVALID_REQUEST", no_producer)


@pytest.mark.parametrize("version", range(3, 6))
def test_producer_continues_with_the_next_epoch_and_a_zombie_is_fenced(scene, version):
    scene.put(transaction(TransactionState.COMPLETE_ABORT))
    assert init(scene, version, producer=OURS) == ("NONE", (OURS.id, OURS.epoch + 1))
    assert init(scene, version, producer=(OURS.id, 1)) == (fenced(version, 4), (-1, -1))


# AddPartitionsToTxn


def topics(**partitions):
    return [
        AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
        for topic, indexes in partitions.items()
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
        entry = AddPartitionsToTxnRequest.Transaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify,
            topics=topics(**partitions),
        )
        request = AddPartitionsToTxnRequest(transactions=[entry])
    response = ask(
        scene, add_partitions_to_txn, scene.coordinator, Cluster(), request, version=version
    )
    if version < 4:
        return errors_by_partition(response.results_by_topic_v3_and_below)
    (result,) = response.results_by_transaction
    assert (response.error_code, result.transactional_id) == (0, transactional_id)
    return errors_by_partition(result.topic_results)


def errors_by_partition(results):
    return {
        f"{topic.name}-{partition.partition_index}": name(partition.partition_error_code)
        for topic in results
        for partition in topic.results_by_partition
    }


ADD_VERSIONS = versions_of(AddPartitionsToTxnRequest)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_partitions_are_added(scene, version):
    scene.put(transaction())
    assert add(scene, version, events=[0, 1]) == {"events-0": "NONE", "events-1": "NONE"}
    txn = scene.shard.transactions[ID]
    assert (txn.state, len(txn.partitions)) == (TransactionState.ONGOING, 2)
    assert txn.client_transaction_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_unknown_partition_keeps_all_others_from_being_added(scene, version):
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
def test_coordinator_error_is_returned_for_every_partition(scene, version):
    scene.put(transaction())
    rejected = add(scene, version, producer=(OURS.id, 1), events=[0, 1])
    assert rejected == dict.fromkeys(["events-0", "events-1"], fenced(version, 2))
    assert add(scene, version, producer=(1, 1), events=[0]) == {
        "events-0": "INVALID_PRODUCER_ID_MAPPING"
    }
    assert add(scene, version, transactional_id="", events=[0]) == {"events-0": "INVALID_REQUEST"}


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_many_partitions_are_checked_in_time_slices(scene, version, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    scene.put(transaction())
    many = range(time_slice.INLINE_ENTRIES_MAX + 1)
    rounds = scene.loop.rounds
    rejected = add(scene, version, what=many)
    assert rejected == {f"what-{index}": "UNKNOWN_TOPIC_OR_PARTITION" for index in many}
    assert scene.loop.rounds - rounds > len(many)


@pytest.mark.parametrize("version", [4, 5])
def test_verify_only_adds_nothing(scene, version):
    scene.put(
        transaction(TransactionState.ONGOING, partitions=frozenset({TopicPartition("events", 0)}))
    )
    end_offset = scene.log.log_end_offset
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
    assert scene.log.log_end_offset == end_offset


@pytest.mark.parametrize("version", [4, 5])
def test_each_transaction_of_a_request_succeeds_or_fails_independently(scene, version):
    scene.put(transaction())
    entries = [
        AddPartitionsToTxnRequest.Transaction(
            transactional_id=each,
            producer_id=OURS.id,
            producer_epoch=OURS.epoch,
            topics=topics(events=[0]),
        )
        for each in (ID, "nobody")
    ]
    request = AddPartitionsToTxnRequest(transactions=entries)
    response = ask(
        scene, add_partitions_to_txn, scene.coordinator, Cluster(), request, version=version
    )
    assert {
        each.transactional_id: errors_by_partition(each.topic_results)
        for each in response.results_by_transaction
    } == {
        ID: {"events-0": "NONE"},
        "nobody": {"events-0": "INVALID_PRODUCER_ID_MAPPING"},
    }


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_request_error_is_returned_in_every_version(version):
    body = AddPartitionsToTxnRequest(v3_and_below_topics=topics(events=[0, 1]))
    if version >= 4:
        body = AddPartitionsToTxnRequest(transactions=[])
    request = called(body, version=version)
    response = as_sent(
        add_partitions_to_txn.error_response(request, KafkaStorageError()), version=version
    )
    if version >= 4:
        assert name(response.error_code) == "KAFKA_STORAGE_ERROR"
    else:
        codes = errors_by_partition(response.results_by_topic_v3_and_below)
        assert codes == dict.fromkeys(["events-0", "events-1"], "KAFKA_STORAGE_ERROR")


# AddOffsetsToTxn


@pytest.mark.parametrize("version", versions_of(AddOffsetsToTxnRequest))
def test_offsets_of_a_group_are_added_as_their_partition(scene, version):
    scene.put(transaction())
    groups = SimpleNamespace(partition_for=lambda group_id: {"readers": 17}[group_id])

    def added(epoch=OURS.epoch):
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=OURS.id, producer_epoch=epoch, group_id="readers"
        )
        response = ask(
            scene, add_offsets_to_txn, scene.coordinator, groups, request, version=version
        )
        return name(response.error_code)

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
    response = ask(scene, end_txn, scene.coordinator, request, version=version)
    return name(response.error_code), (response.producer_id, response.producer_epoch)


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
@pytest.mark.parametrize("committed", [True, False])
def test_transaction_ends(scene, version, committed):
    scene.put(transaction(TransactionState.ONGOING))
    expected = (OURS.id, OURS.epoch + 1) if version >= 5 else (-1, -1)
    assert end(scene, version, committed=committed) == ("NONE", expected)
    scene.pass_ms(1)
    assert scene.state() == ("CompleteCommit" if committed else "CompleteAbort")
    assert end(scene, version, committed=committed) == ("NONE", expected)


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
def test_rejected_end_returns_an_error_that_the_client_knows(scene, version):
    scene.put(transaction(TransactionState.ONGOING))
    assert end(scene, version, producer=(OURS.id, 1)) == (fenced(version, 2), (-1, -1))
    assert end(scene, version, producer=(1, 1)) == ("INVALID_PRODUCER_ID_MAPPING", (-1, -1))
