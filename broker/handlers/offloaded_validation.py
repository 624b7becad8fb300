"""The entries of a Produce request whose records have to be read first, elsewhere.

Each is replaced by what was found.  As settings may change meanwhile, those that were checked by
other rules than count now are checked again; if that goes on, the append does it in one go.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from odradek.broker.record_reader import RECORDS_PER_TURN
from odradek.broker.replicas.partition import Partition
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.errors import KafkaError
from odradek.storage.admission.batch_validation import holding_cost, reading_cost
from odradek.storage.admission.checked_batch import CheckedBatch
from odradek.storage.admission.rules import AppendRules

CHECKS_MAX = 3


class Reader(Protocol):
    """Whoever reads records."""

    async def checked(
        self, received: memoryview, rules: AppendRules, /, *, now_ms: int
    ) -> CheckedBatch: ...


class Unread:
    """An entry of a request, and where its records are to be appended."""

    def __init__(
        self, entry: ProduceRequest.Topic.Partition, partition: Partition, received: memoryview
    ) -> None:
        self._entry: Any = entry  # its records are replaced by what is found
        self._partition = partition
        self._received = received
        #: In records that have to be read.
        self.cost = reading_cost(received, partition.log.rules)

    @property
    def is_checked(self) -> bool:
        records = self._entry.records
        return isinstance(records, CheckedBatch) and records.rules == self._partition.log.rules

    def holding_cost(self, *, most: int) -> int:
        """What comes to that by what they hold, once unpacked."""
        return holding_cost(self._received, most=most)

    async def check(self, reader: Reader, now_ms: int) -> None:
        rules = self._partition.log.rules
        try:
            checked = await reader.checked(self._received, rules, now_ms=now_ms)
        except KafkaError as failure:
            checked = CheckedBatch(self._received, rules, failure)
        self._entry.records = checked


def too_many(unread: Iterable[Unread]) -> list[Unread]:
    """Those that have records to be read, if all of these do not fit into a turn."""
    some = [each for each in unread if each.cost]
    left = RECORDS_PER_TURN - sum(each.cost for each in some)
    for each in some:
        if left < 0:
            break
        left -= each.holding_cost(most=left)
    return some if left < 0 else []


async def check_all(unread: Sequence[Unread], reader: Reader, now_ms: Callable[[], int]) -> None:
    for _ in range(CHECKS_MAX):
        unchecked = [each for each in unread if not each.is_checked]
        for each in unchecked:
            await each.check(reader, now_ms())
        if not unchecked:
            return
