"""Keys and values of transaction records."""

import pytest

from odradek.broker.transactions.records import (
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.broker.transactions.transaction_state import TransactionState
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.internal.transaction_log import TransactionLogValue
from tests.support.transactions import ID, transaction

VERSION_1_FIELDS = {
    "previous_producer_id": 5,
    "next_producer_id": 9,
    "client_transaction_version": 2,
}


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("server", [1, 2])
def test_value_survives_a_round_trip(state, server):
    txn = transaction(state, **VERSION_1_FIELDS)
    assert read_value(ID, transaction_value(txn, transaction_version=server)) == txn


@pytest.mark.parametrize("state", TransactionState)
def test_version_0_drops_the_new_fields(state):
    txn = transaction(state, **VERSION_1_FIELDS)
    assert read_value(ID, transaction_value(txn, transaction_version=0)) == transaction(state)


@pytest.mark.parametrize("server", [0, 1])
def test_last_producer_epoch_is_not_stored(server):
    stored = transaction_value(transaction(last_producer_epoch=2), transaction_version=server)
    assert read_value(ID, stored) == transaction()


def test_value_version_follows_the_transaction_version():
    values = [transaction_value(transaction(), transaction_version=each)[:2] for each in range(3)]
    assert values == [b"\0\0", b"\0\x01", b"\0\x01"]


def test_partitions_are_null_only_in_state_empty():
    """Kafka writes values like this, and reads no others."""
    for state in TransactionState:
        stored = transaction_value(
            transaction(state, partitions=frozenset()), transaction_version=0
        )
        length = stored[2 + 8 + 2 + 4 + 1 :][:4]
        assert length == (b"\xff\xff\xff\xff" if state is TransactionState.EMPTY else b"\0\0\0\0")


def test_key_survives_a_round_trip():
    assert transaction_key("ab") == b"\0\0\0\x02ab"
    assert read_key(b"\0\0\0\x02ab") == "ab"


def test_unknown_states_and_versions_are_rejected():
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=8,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
    )
    with pytest.raises(DecodeError, match="state 8"):
        read_value(ID, encode_version_prefixed(value, 0))
    with pytest.raises(DecodeError, match="version 2"):
        read_value(ID, b"\0\x02" + encode_version_prefixed(value, 1)[2:])
