"""Transactions as tests speak of them."""

from typing import Any

from odradek.broker.transactions.transaction_state import Producer, State, Transaction
from odradek.protocol.types import TopicPartition

ID = "copier"
PRODUCER_ID = 7
EPOCH = 3
NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
#: In which an open transaction has records.
PARTITIONS = frozenset({TopicPartition("events", 0), TopicPartition("events", 1)})
OURS = Producer(PRODUCER_ID, EPOCH)

_BEGUN = {"partitions": PARTITIONS, "started_ms": NOW_MS - 500}
#: What goes with a state beside its name.
_OF_STATE: dict[State, dict[str, Any]] = {
    State.ONGOING: _BEGUN,
    State.PREPARE_COMMIT: _BEGUN,
    State.PREPARE_ABORT: _BEGUN,
    State.PREPARE_EPOCH_FENCE: _BEGUN,
    State.COMPLETE_COMMIT: {"started_ms": NOW_MS - 500},
    State.COMPLETE_ABORT: {"started_ms": NOW_MS - 500},
}


def transaction(state: State = State.EMPTY, **fields: Any) -> Transaction:
    values: dict[str, Any] = {
        "transactional_id": ID,
        "producer_id": PRODUCER_ID,
        "producer_epoch": EPOCH,
        "timeout_ms": TIMEOUT_MS,
        "updated_ms": NOW_MS - 100,
        **_OF_STATE.get(state, {}),
    }
    return Transaction(state=state, **{**values, **fields})
