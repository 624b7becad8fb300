"""What is done to logs in crash tests, as facts that can be written down before and after.

A step is told twice: when it begins and when it is done.  A step that began and was never done is
what a crash interrupted: it may have happened, or not, or in part.  Both travel as JSON lines from
a writer that is going to be killed.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Protocol

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch


class Kind(StrEnum):
    APPEND = "append"
    ROLL = "roll"
    FLUSH = "flush"
    CHECKPOINT = "checkpoint"
    TRUNCATE = "truncate"
    RESTART = "restart"  # full truncation
    DELETE_RECORDS = "delete records"
    RETAIN = "retain"
    COMPACT = "compact"
    REMOVE = "remove"
    RECREATE = "recreate"
    CLOSE = "close"


@dataclass(frozen=True, kw_only=True)
class SentBatch:
    """A batch as a client sends it, or the marker that ends a transaction."""

    values: tuple[str, ...]
    timestamp: int
    keys: tuple[str, ...] = ()
    producer_id: int = -1
    sequence: int = -1
    is_transactional: bool = False
    ends: str | None = None  # "commit" or "abort"
    leader_epoch: int = 0
    base_offset: int | None = None  # None: the leader numbers it

    def encoded(self) -> bytearray:
        if self.ends:
            return build_marker_batch(
                EndTransactionMarker(self.ends == "commit", 0),
                timestamp=self.timestamp,
                producer_id=self.producer_id,
                producer_epoch=0,
            )
        fields = BatchFields(
            base_offset=self.base_offset or 0,
            partition_leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=-1 if self.producer_id < 0 else 0,
            base_sequence=self.sequence,
            is_transactional=self.is_transactional,
        )
        builder = BatchBuilder(fields)
        for at, value in enumerate(self.values):
            key = self.keys[at].encode() if self.keys else None
            builder.append(timestamp=self.timestamp, key=key, value=value.encode())
        return builder.build()


@dataclass(frozen=True)
class Step:
    """``log`` counts the logs of a CrashHost; -1 is all of them."""

    kind: Kind
    log: int = -1
    offset: int = -1
    batch: SentBatch | None = None


@dataclass(frozen=True)
class Ends:
    """Where a log begins and ends, and how far it is synced."""

    first_segment: int
    start_offset: int
    end_offset: int
    recovery_point: int


@dataclass(frozen=True)
class Outcome:
    """What is true when a step is done."""

    ends: dict[int, Ends] = field(default_factory=dict)
    first_offset: int = -1
    is_duplicate: bool = False


class Listener(Protocol):
    def begin(self, step: Step) -> None: ...

    def done(self, step: Step, outcome: Outcome) -> None: ...


def line_of(step: Step, outcome: Outcome | None = None) -> bytes:
    return json.dumps([asdict(step), outcome and asdict(outcome)]).encode() + b"\n"


def tell(line: bytes, listener: Listener) -> None:
    """Pass on what a line says."""
    told, result = json.loads(line)
    batch = told["batch"]
    if batch is not None:
        batch = SentBatch(
            **{**batch, "values": tuple(batch["values"]), "keys": tuple(batch["keys"])}
        )
    step = Step(Kind(told["kind"]), told["log"], told["offset"], batch)
    if result is None:
        listener.begin(step)
    else:
        result["ends"] = {int(log): Ends(**ends) for log, ends in result["ends"].items()}
        listener.done(step, Outcome(**result))
