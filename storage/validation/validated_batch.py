"""A record set that a worker process has validated before the append.

The time to read or rewrite records grows with their number, and a small batch may hold a million.
So the caller of an append can check the ``validation_cost``, let a worker process validate the set,
and append the outcome, which reads no record:

    outcome = prevalidate(bytes(records), rules, now_ms=now_ms)              in the worker process
    log.append_as_leader(ValidatedBatch(records, rules, outcome), ...)       on the event loop

Everything that depends on the log or on the time of the append is left to the append: offsets,
leader epoch, producer state, log append time.  If the rules of the log have changed in the
meantime, the outcome is ignored and the append validates the records again.

Owner: none; an outcome is immutable until it is appended, which patches its batch in place.
"""

from dataclasses import dataclass
from typing import final

from odradek.protocol.errors import KafkaError
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.log_validator import validate_batch


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The batch to write; None if the set has no complete batch."""

    batch: bytearray | None
    converted_count: int = 0  # the number of records that were rewritten


#: The result, or the error to raise at the append.
ValidationOutcome = ValidationResult | KafkaError


@final
@dataclass(frozen=True, slots=True)
class ValidatedBatch:
    """A record set of a client, and the outcome of its validation by these rules."""

    records: memoryview
    rules: AppendRules
    outcome: ValidationOutcome


def prevalidate(records: bytes, rules: AppendRules, *, now_ms: int) -> ValidationOutcome:
    """Validate a record set of a client.  May run in a worker process."""
    received = bytearray(records)
    try:
        batch = validate_batch(received, rules, origin=AppendOrigin.CLIENT, now_ms=now_ms)
    except KafkaError as error:
        return error.with_traceback(None)
    if batch is None:
        return ValidationResult(None)
    is_rewritten = batch.buffer is not received
    return ValidationResult(bytearray(batch.view), batch.count if is_rewritten else 0)
