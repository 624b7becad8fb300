"""Transactions as tests speak of them."""

from typing import Any

from odradek.broker.transactions.transaction_state import (
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from odradek.protocol.types import TopicPartition

ID = "copier"
PRODUCER_ID = 7
EPOCH = 3
NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
#: In which an open transaction has records.
PARTITIONS = frozenset({TopicPartition("events", 0), TopicPartition("events", 1)})
OURS = ProducerIdAndEpoch(PRODUCER_ID, EPOCH)

_BEGUN = {"partitions": PARTITIONS, "started_ms": NOW_MS - 500}
#: What goes with a state beside its name.
_OF_STATE: dict[TransactionState, dict[str, Any]] = {
    TransactionState.ONGOING: _BEGUN,
    TransactionState.PREPARE_COMMIT: _BEGUN,
    TransactionState.PREPARE_ABORT: _BEGUN,
    TransactionState.PREPARE_EPOCH_FENCE: _BEGUN,
    TransactionState.COMPLETE_COMMIT: {"started_ms": NOW_MS - 500},
    TransactionState.COMPLETE_ABORT: {"started_ms": NOW_MS - 500},
}


def transaction(
    state: TransactionState = TransactionState.EMPTY, **fields: Any
) -> TransactionMetadata:
    values: dict[str, Any] = {
        "transactional_id": ID,
        "producer_id": PRODUCER_ID,
        "producer_epoch": EPOCH,
        "timeout_ms": TIMEOUT_MS,
        "updated_ms": NOW_MS - 100,
        **_OF_STATE.get(state, {}),
    }
    return TransactionMetadata(state=state, **{**values, **fields})
