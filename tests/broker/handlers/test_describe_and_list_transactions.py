"""Handlers that show transactions: DescribeTransactions, ListTransactions."""

import pytest

from odradek.broker import turns
from odradek.broker.handlers import describe_transactions, list_transactions
from odradek.broker.transactions.transaction_state import State
from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.api.list_transactions import ListTransactionsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, KafkaStorageError
from tests.support.calls import as_sent, called, versions_of
from tests.support.transaction_scene import answered, ask, scene
from tests.support.transactions import ID, NOW_MS, OURS, TIMEOUT_MS, transaction

__all__ = ["scene"]


def name(code):
    return ErrorCode.of(code).name


# DescribeTransactions


def described(scene, *ids):
    request = DescribeTransactionsRequest(transactional_ids=list(ids))
    answer = ask(scene, describe_transactions, scene.coordinator, request, version=0)
    return answer.transaction_states


def test_a_transaction_is_described(scene):
    scene.put(transaction(State.ONGOING))
    (shown,) = described(scene, ID)
    assert (shown.error_code, shown.transactional_id) == (0, ID)
    assert shown.transaction_state == "Ongoing"
    assert (shown.producer_id, shown.producer_epoch) == OURS
    assert (shown.transaction_timeout_ms, shown.transaction_start_time_ms) == (
        TIMEOUT_MS,
        NOW_MS - 500,
    )
    assert [(each.topic, each.partitions) for each in shown.topics] == [("events", [0, 1])]


def test_what_cannot_be_described_is_told_for_each_id(scene):
    assert [name(each.error_code) for each in described(scene, ID, "nobody", "")] == [
        "TRANSACTIONAL_ID_NOT_FOUND",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "INVALID_REQUEST",
    ]
    scene.resign()
    assert [name(each.error_code) for each in described(scene, ID)] == ["NOT_COORDINATOR"]


def test_many_are_described_in_turns(scene, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    scene.put(transaction(State.ONGOING))
    rounds = scene.loop.rounds
    shown = described(scene, ID, *map(str, range(turns.FEW)))
    assert [each.error_code for each in shown[:2]] == [0, 105]
    assert scene.loop.rounds - rounds > turns.FEW


def test_a_whole_description_can_be_refused():
    call = called(DescribeTransactionsRequest(transactional_ids=["a", "b"]))
    answer = describe_transactions.refused(call, KafkaStorageError())
    assert [each.error_code for each in answer.transaction_states] == [56, 56]


# ListTransactions


def listed(scene, version=2, **filters):
    request = ListTransactionsRequest(
        state_filters=filters.pop("states", []),
        producer_id_filters=filters.pop("producers", []),
        **filters,
    )
    call = called(request, version=version)
    answer = as_sent(
        scene.run(answered(lambda: list_transactions.handle(scene.coordinator, call))),
        version=version,
    )
    assert answer.error_code == 0
    return [each.transactional_id for each in answer.transaction_states], answer


@pytest.fixture
def three(scene):
    scene.put(transaction(transactional_id="a", producer_id=1))
    scene.put(transaction(State.ONGOING, transactional_id="b", producer_id=2))
    scene.put(transaction(State.COMPLETE_ABORT, transactional_id="ba", producer_id=3))
    return scene


@pytest.mark.parametrize("version", versions_of(ListTransactionsRequest))
def test_all_are_listed(three, version):
    ids, answer = listed(three, version)
    assert ids == ["a", "b", "ba"]
    assert [(each.producer_id, each.transaction_state) for each in answer.transaction_states] == [
        (1, "Empty"),
        (2, "Ongoing"),
        (3, "CompleteAbort"),
    ]


def test_filters_must_all_let_it_pass(three):
    assert listed(three, states=["Ongoing", "Empty"])[0] == ["a", "b"]
    assert listed(three, producers=[2, 3, 9])[0] == ["b", "ba"]
    assert listed(three, states=["Ongoing"], producers=[3])[0] == []
    assert listed(three, duration_filter=0)[0] == ["a", "b", "ba"]
    assert listed(three, duration_filter=499)[0] == ["a", "b", "ba"]
    assert listed(three, duration_filter=500)[0] == ["a"]
    assert listed(three, transactional_id_pattern="b.*")[0] == ["b", "ba"]
    assert listed(three, transactional_id_pattern="")[0] == ["a", "b", "ba"]


def test_states_that_nobody_knows_are_told_and_let_nothing_pass(three):
    ids, answer = listed(three, states=["Open"])
    assert (ids, answer.unknown_state_filters) == ([], ["Open"])


def test_a_pattern_that_is_none_is_refused(three):
    with pytest.raises(KafkaError) as refused:
        listed(three, transactional_id_pattern="(")
    assert refused.value.error.name == "INVALID_REGULAR_EXPRESSION"


def test_while_some_are_loaded_nothing_is_listed(three):
    three.shards.is_loading = True
    with pytest.raises(KafkaError) as refused:
        listed(three)
    assert refused.value.error.name == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize(("states", "count"), [(["Empty"], 1000), (["Ongoing"], 0)])
def test_many_are_looked_at_in_turns_wanted_or_not(scene, monkeypatch, states, count):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    for number in range(1000):
        scene.put(transaction(transactional_id=f"{number}"))
    rounds = scene.loop.rounds
    assert len(listed(scene, states=states)[0]) == count
    assert scene.loop.rounds - rounds > turns.FEW
