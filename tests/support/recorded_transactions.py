"""What Apache Kafka wrote of transactions: records of ``__transaction_state``, and markers.

``transaction_state.json`` has, for each release, the records in the order of each partition, with
what Kafka's own classes read in them, and the control batches of a topic that was written to, with
what DumpLogSegments printed of them.  Bytes are in hexadecimal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from odradek.protocol.records.record_set import batches_of_any_magic

#: Of ``__transaction_state``, on the brokers that wrote it.
STATE_PARTITIONS = 4
TRANSACTION_STATE = Path(__file__).resolve().parents[1] / "vectors" / "transaction_state.json"


@dataclass(frozen=True, slots=True)
class RecordedRecord:
    """``shown_value`` is absent where there is no value: the transactional id was forgotten."""

    partition: int
    key: str
    value: str | None
    shown_key: Mapping[str, Any]
    shown_value: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RecordedMarker:
    batch: str
    marker: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class RecordedTransactions:
    release: str
    records: Sequence[RecordedRecord]
    markers: Sequence[RecordedMarker]


def save(recorded: Sequence[RecordedTransactions], path: Path) -> None:
    parts = [
        f'{{"release": "{each.release}",\n'
        f'"records": [\n{_lines(each.records)}],\n"markers": [\n{_lines(each.markers)}]}}'
        for each in recorded
    ]
    path.write_text("[" + ",\n".join(parts) + "]\n")


def _lines(entries: Sequence[Any]) -> str:
    return ",\n".join(json.dumps(asdict(each)) for each in entries)


def recorded_transactions() -> list[RecordedTransactions]:
    return [
        RecordedTransactions(
            release=each["release"],
            records=[RecordedRecord(**fields) for fields in each["records"]],
            markers=[RecordedMarker(**fields) for fields in each["markers"]],
        )
        for each in json.loads(TRANSACTION_STATE.read_text())
    ]


class LogRecord(NamedTuple):
    partition: int
    key: bytes
    value: bytes | None


def records_of(data_directory: Path) -> list[LogRecord]:
    """All that a broker has written into ``__transaction_state``, partition by partition."""
    found = []
    for path in sorted(data_directory.glob("__transaction_state-*/*.log")):
        partition = int(path.parent.name.rpartition("-")[2])
        for batch in batches_of_any_magic(path.read_bytes()):
            for record in batch.records():
                assert record.key is not None
                found.append(LogRecord(partition, record.key, record.value))
    return found
