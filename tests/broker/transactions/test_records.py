"""Keys and values of the transaction log."""

import pytest

from odradek.broker.transactions.records import (
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.broker.transactions.transaction_state import State
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.log_record import encode_part
from odradek.protocol.internal.transaction_log import TransactionLogValue
from tests.support.transactions import ID, transaction

TOLD_BY_VERSION_1 = {"previous_producer_id": 5, "next_producer_id": 9, "client_version": 2}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("server", [1, 2])
def test_what_is_written_is_read(state, server):
    txn = transaction(state, **TOLD_BY_VERSION_1)
    assert read_value(ID, transaction_value(txn, server_version=server)) == txn


@pytest.mark.parametrize("state", State)
def test_version_0_has_no_room_for_what_is_new(state):
    txn = transaction(state, **TOLD_BY_VERSION_1)
    assert read_value(ID, transaction_value(txn, server_version=0)) == transaction(state)


@pytest.mark.parametrize("server", [0, 1])
def test_the_last_epoch_is_not_in_the_log(server):
    stored = transaction_value(transaction(last_epoch=2), server_version=server)
    assert read_value(ID, stored) == transaction()


def test_the_version_of_a_value_is_that_of_the_feature():
    values = [transaction_value(transaction(), server_version=each)[:2] for each in range(3)]
    assert values == [b"\0\0", b"\0\x01", b"\0\x01"]


def test_partitions_are_null_in_state_empty_and_only_there():
    """As Kafka writes it; it reads no others."""
    for state in State:
        stored = transaction_value(transaction(state, partitions=frozenset()), server_version=0)
        length = stored[2 + 8 + 2 + 4 + 1 :][:4]
        assert length == (b"\xff\xff\xff\xff" if state is State.EMPTY else b"\0\0\0\0")


def test_keys():
    assert transaction_key("ab") == b"\0\0\0\x02ab"
    assert read_key(b"\0\0\0\x02ab") == "ab"


def test_states_and_versions_that_nobody_knows_cannot_be_read():
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
        read_value(ID, encode_part(value, 0))
    with pytest.raises(DecodeError, match="version 2"):
        read_value(ID, b"\0\x02" + encode_part(value, 1)[2:])
