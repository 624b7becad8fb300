"""DescribeTransactions and ListTransactions."""

import pytest

from odradek.broker import time_slice
from odradek.broker.handlers import describe_transactions, list_transactions
from odradek.broker.transactions.transaction_state import TransactionState
from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.api.list_transactions import ListTransactionsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, KafkaStorageError
from tests.support.calls import as_sent, called, versions_of
from tests.support.transaction_scene import answered, ask, scene
from tests.support.transactions import ID, NOW_MS, OURS, TIMEOUT_MS, transaction

__all__ = ["scene"]


def name(code):
    return ErrorCode.for_code(code).name


# DescribeTransactions


def describe(scene, *ids):
    request = DescribeTransactionsRequest(transactional_ids=list(ids))
    response = ask(scene, describe_transactions, scene.coordinator, request, version=0)
    return response.transaction_states


def test_transaction_is_described(scene):
    scene.put(transaction(TransactionState.ONGOING))
    (state,) = describe(scene, ID)
    assert (state.error_code, state.transactional_id) == (0, ID)
    assert state.transaction_state == "Ongoing"
    assert (state.producer_id, state.producer_epoch) == OURS
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (
        TIMEOUT_MS,
        NOW_MS - 500,
    )
    assert [(each.topic, each.partitions) for each in state.topics] == [("events", [0, 1])]


def test_error_is_returned_for_each_id(scene):
    assert [name(each.error_code) for each in describe(scene, ID, "nobody", "")] == [
        "TRANSACTIONAL_ID_NOT_FOUND",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "INVALID_REQUEST",
    ]
    scene.resign()
    assert [name(each.error_code) for each in describe(scene, ID)] == ["NOT_COORDINATOR"]


def test_many_transactions_are_described_in_time_slices(scene, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    scene.put(transaction(TransactionState.ONGOING))
    rounds = scene.loop.rounds
    states = describe(scene, ID, *map(str, range(time_slice.INLINE_ENTRIES_MAX)))
    assert [each.error_code for each in states[:2]] == [0, 105]
    assert scene.loop.rounds - rounds > time_slice.INLINE_ENTRIES_MAX


def test_request_error_is_returned_for_every_id():
    request = called(DescribeTransactionsRequest(transactional_ids=["a", "b"]))
    response = describe_transactions.error_response(request, KafkaStorageError())
    assert [each.error_code for each in response.transaction_states] == [56, 56]


# ListTransactions


def list_all(scene, version=2, **filters):
    body = ListTransactionsRequest(
        state_filters=filters.pop("states", []),
        producer_id_filters=filters.pop("producers", []),
        **filters,
    )
    request = called(body, version=version)
    response = as_sent(
        scene.run(answered(lambda: list_transactions.handle(scene.coordinator, request))),
        version=version,
    )
    assert response.error_code == 0
    return [each.transactional_id for each in response.transaction_states], response


@pytest.fixture
def three(scene):
    scene.put(transaction(transactional_id="a", producer_id=1))
    scene.put(transaction(TransactionState.ONGOING, transactional_id="b", producer_id=2))
    scene.put(transaction(TransactionState.COMPLETE_ABORT, transactional_id="ba", producer_id=3))
    return scene


@pytest.mark.parametrize("version", versions_of(ListTransactionsRequest))
def test_all_transactions_are_listed(three, version):
    ids, response = list_all(three, version)
    assert ids == ["a", "b", "ba"]
    assert [(each.producer_id, each.transaction_state) for each in response.transaction_states] == [
        (1, "Empty"),
        (2, "Ongoing"),
        (3, "CompleteAbort"),
    ]


def test_transactions_must_match_all_filters(three):
    assert list_all(three, states=["Ongoing", "Empty"])[0] == ["a", "b"]
    assert list_all(three, producers=[2, 3, 9])[0] == ["b", "ba"]
    assert list_all(three, states=["Ongoing"], producers=[3])[0] == []
    assert list_all(three, duration_filter=0)[0] == ["a", "b", "ba"]
    assert list_all(three, duration_filter=499)[0] == ["a", "b", "ba"]
    assert list_all(three, duration_filter=500)[0] == ["a"]
    assert list_all(three, transactional_id_pattern="b.*")[0] == ["b", "ba"]
    assert list_all(three, transactional_id_pattern="")[0] == ["a", "b", "ba"]


def test_unknown_state_filters_are_returned_and_match_nothing(three):
    ids, response = list_all(three, states=["Open"])
    assert (ids, response.unknown_state_filters) == ([], ["Open"])


def test_invalid_transactional_id_pattern_is_rejected(three):
    with pytest.raises(KafkaError) as raised:
        list_all(three, transactional_id_pattern="(")
    assert raised.value.error_code.name == "INVALID_REGULAR_EXPRESSION"


def test_listing_fails_while_transactions_are_loaded(three):
    three.shards.is_loading = True
    with pytest.raises(KafkaError) as raised:
        list_all(three)
    assert raised.value.error_code.name == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize(("states", "count"), [(["Empty"], 1000), (["Ongoing"], 0)])
def test_many_transactions_are_filtered_in_time_slices(scene, monkeypatch, states, count):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    for number in range(1000):
        scene.put(transaction(transactional_id=f"{number}"))
    rounds = scene.loop.rounds
    assert len(list_all(scene, states=states)[0]) == count
    assert scene.loop.rounds - rounds > time_slice.INLINE_ENTRIES_MAX
