"""Validation of the records of a Produce request in the worker process, before the append.

The validated batch replaces the records of an entry.  Settings may change meanwhile: a batch that
was validated by outdated rules is validated again.  After VALIDATION_ATTEMPTS_MAX attempts the
append validates it, on the event loop.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from odradek.broker.record_inspector import INLINE_RECORDS_MAX
from odradek.broker.replicas.partition import Partition
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.errors import KafkaError
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.log_validator import decompressed_cost, validation_cost
from odradek.storage.validation.validated_batch import ValidatedBatch

VALIDATION_ATTEMPTS_MAX = 3


class RecordValidator(Protocol):
    """Validates records without blocking the event loop."""

    async def validate(
        self, records: memoryview, rules: AppendRules, /, *, now_ms: int
    ) -> ValidatedBatch: ...


class UnvalidatedRecords:
    """An entry of a request, with the partition that its records are appended to."""

    def __init__(
        self, entry: ProduceRequest.Topic.Partition, partition: Partition, records: memoryview
    ) -> None:
        self._entry: Any = entry  # a ValidatedBatch replaces its records
        self._partition = partition
        self._records = records
        #: The number of records that the validation reads, by the batch headers.
        self.cost = validation_cost(records, partition.log.append_rules)

    @property
    def is_validated(self) -> bool:
        records = self._entry.records
        return (
            isinstance(records, ValidatedBatch)
            and records.rules == self._partition.log.append_rules
        )

    def decompressed_cost(self, *, max_cost: int) -> int:
        """Return the cost by the decompressed size of the records."""
        return decompressed_cost(self._records, max_cost=max_cost)

    async def validate(self, record_validator: RecordValidator, now_ms: int) -> None:
        rules = self._partition.log.append_rules
        try:
            validated = await record_validator.validate(self._records, rules, now_ms=now_ms)
        except KafkaError as error:
            validated = ValidatedBatch(self._records, rules, error)
        self._entry.records = validated


def select_for_worker(unvalidated: Iterable[UnvalidatedRecords]) -> list[UnvalidatedRecords]:
    """Return the entries with records to read, or none if all of them fit into a time slice."""
    candidates = [each for each in unvalidated if each.cost]
    remaining = INLINE_RECORDS_MAX - sum(each.cost for each in candidates)
    for each in candidates:
        if remaining < 0:
            break
        remaining -= each.decompressed_cost(max_cost=remaining)
    return candidates if remaining < 0 else []


async def validate_all(
    unvalidated: Sequence[UnvalidatedRecords],
    record_validator: RecordValidator,
    now_ms: Callable[[], int],
) -> None:
    for _ in range(VALIDATION_ATTEMPTS_MAX):
        outdated = [each for each in unvalidated if not each.is_validated]
        for each in outdated:
            await each.validate(record_validator, now_ms())
        if not outdated:
            return
