"""A record set that was checked before it is appended: what is to be written of it, or why nothing.

How long it takes to read or rewrite records goes by their number, and a small batch may hold a
million.  So whoever appends may ask for the ``reading_cost``, let a worker process check the set,
and append what came of that, which reads no record:

    verdict = verdict_on(bytes(records), rules, now_ms=now_ms)               in the worker process
    log.append_as_leader(CheckedBatch(records, rules, verdict), ...)         here

Whatever depends on the log or on the moment of the append is left to the append: offsets, leader
epoch, producers, the time of append.  A verdict by other rules than the log has by then is worth
nothing, and the set is checked as any other.

Owner: none; a verdict is immutable until it is appended, which patches its batch in place.
"""

from dataclasses import dataclass
from typing import final

from odradek.protocol.errors import KafkaError
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.log_validator import validate_batch


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What is to be written; None if no batch is whole."""

    batch: bytearray | None
    converted_count: int = 0  # of the records that had to be rewritten


#: Or the refusal.
ValidationOutcome = ValidationResult | KafkaError


@final
@dataclass(frozen=True, slots=True)
class ValidatedBatch:
    """A record set of a client, and what was found by these rules."""

    records: memoryview
    rules: AppendRules
    outcome: ValidationOutcome


def prevalidate(records: bytes, rules: AppendRules, *, now_ms: int) -> ValidationOutcome:
    """May run in a worker process."""
    received = bytearray(records)
    try:
        batch = validate_batch(received, rules, origin=AppendOrigin.CLIENT, now_ms=now_ms)
    except KafkaError as error:
        return error.with_traceback(None)
    if batch is None:
        return ValidationResult(None)
    is_rewritten = batch.buffer is not received
    return ValidationResult(bytearray(batch.view), batch.count if is_rewritten else 0)
