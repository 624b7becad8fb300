"""Answers with what may differ between two brokers that do the same: ids, times and addresses.

Everything else is shown as it is.  Records are shown batch by batch, as what they say: bytes that a
broker compressed itself depend on the library that it uses.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic, magic_of
from odradek.protocol.schema import Struct
from odradek.protocol.types import ZERO_UUID, Uuid

HOUR_MS = 3_600_000
#: What brokers make ids of members unique with.
MADE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|^(?=.*[^a-z])[\w-]{22}$")


@dataclass(frozen=True, slots=True)
class Facts:
    """Which answer of which broker it is."""

    key: ApiKey
    version: int
    port: int
    log_dirs: Sequence[str]
    topic_name: Callable[[Uuid], str | None]
    #: Names of members and producers that are known, by their ids.
    members: Mapping[str, str]
    producers: Mapping[int, str]


def shown(facts: Facts, value: Any, name: str = "") -> Any:
    """The field ``name`` of an answer, or all of it."""
    if isinstance(value, Struct):
        return {
            field.name: shown(facts, getattr(value, field.name), field.name)
            for field in value.__schema__.fields
            if facts.version in field.versions
        }
    if isinstance(value, list):
        told = [shown(facts, each, name) for each in value]
        # Kafka's are those of a hash table.
        return (
            sorted(told)
            if facts.key is ApiKey.DESCRIBE_TRANSACTIONS and name == "partitions"
            else told
        )
    return SHOWN[name](facts, value) if name in SHOWN else value


def _words(_: Facts, text: str | None) -> str | None:
    """That there is a message is a fact, its words are not."""
    return "<words>" if text else text


def _port(facts: Facts, port: int) -> int | str:
    return "<its port>" if port == facts.port else port


def _topic_id(facts: Facts, topic_id: Uuid) -> str:
    if topic_id == ZERO_UUID:
        return "<no id>"
    return f"<id of {facts.topic_name(topic_id)}>"


def _cluster_id(_: Facts, cluster_id: str | None) -> str | None:
    return "<cluster>" if cluster_id else cluster_id


def _session(_: Facts, session_id: int) -> int | str:
    return "<session>" if session_id else session_id


def _producer(facts: Facts, producer_id: int) -> int | str:
    if producer_id in facts.producers:
        return f"<{facts.producers[producer_id]}>"
    is_new = facts.key in (ApiKey.INIT_PRODUCER_ID, ApiKey.ALLOCATE_PRODUCER_IDS)
    return "<producer>" if is_new and producer_id >= 0 else producer_id


def _member(facts: Facts, member_id: Any) -> Any:
    """By its name, or by what the broker's ids begin with."""
    if not isinstance(member_id, str):
        return member_id
    if member_id in facts.members:
        return f"<{facts.members[member_id]}>"
    return MADE_ID.sub("<made>", member_id)


def _moment(_: Facts, moment_ms: int) -> int | str:
    return "<now>" if abs(moment_ms - time.time() * 1000) < HOUR_MS else moment_ms


def _log_dir(facts: Facts, path: str) -> str:
    return f"<directory {facts.log_dirs.index(path)}>" if path in facts.log_dirs else path


def _space(_: Facts, size_bytes: int) -> int | str:
    return "<bytes>" if size_bytes > 0 else size_bytes


def _records(facts: Facts, records: bytes | memoryview | None) -> Any:
    if records is None:
        return None
    batches = batches_of_any_magic(bytes(records))
    told = [_batch(facts, batch) for batch in batches]
    return {"batches": told, "bytes of a batch that is cut": batches.partial_bytes}


def _batch(facts: Facts, batch: AnyBatch) -> Mapping[str, Any]:
    told: dict[str, Any] = {
        "magic": magic_of(batch),
        "base_offset": batch.base_offset,
        "next_offset": batch.next_offset,
        "attributes": batch.attributes,
        "is_valid": batch.is_valid(),
        "records": _each(facts, batch),
    }
    if isinstance(batch, RecordBatch):
        told |= {
            "leader_epoch": batch.partition_leader_epoch,
            "producer": _producer(facts, batch.producer_id),
            "sequence": (batch.producer_epoch, batch.base_sequence),
            "max_timestamp": _moment(facts, batch.max_timestamp),
        }
    if not batch.codec:
        told["size"] = len(batch.view)
    return told


def _each(facts: Facts, batch: AnyBatch) -> Any:
    try:
        return [
            (
                record.offset,
                _moment(facts, record.timestamp),
                record.key,
                record.value,
                record.headers,
            )
            for record in batch.records()
        ]
    except KafkaError as failure:
        return f"unreadable: {type(failure).__name__}"


SHOWN: Mapping[str, Callable[[Facts, Any], Any]] = {
    "error_message": _words,
    "batch_index_error_message": _words,
    "documentation": _words,
    "port": _port,
    "topic_id": _topic_id,
    "cluster_id": _cluster_id,
    "session_id": _session,
    "producer_id": _producer,
    "producer_id_start": _producer,
    "member_id": _member,
    "leader": _member,
    "log_append_time_ms": _moment,
    "timestamp": _moment,
    "last_timestamp": _moment,
    "transaction_start_time_ms": _moment,
    "log_dir": _log_dir,
    "total_bytes": _space,
    "usable_bytes": _space,
    "records": _records,
}
