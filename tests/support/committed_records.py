"""One partition as a read_committed consumer sees it, by raw fetches.

Each answer is judged by the aborted transactions that came with it, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.group_members import wait_until
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient
from tests.support.read_committed import committed_in


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """What is stable now, from an offset on; the next read begins at ``next_offset``."""

    records: Sequence[Record]
    next_offset: int

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


def read_committed(client: PartitionClient, offset: int = 0) -> CommittedRead:
    """From ``offset``, at which no transaction is halfway, to the last stable offset."""
    found: list[Record] = []
    while True:
        line = client.fetch(offset, isolation_level=READ_COMMITTED)
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        batches = list(batches_of_any_magic(bytes(line.records or b"")))
        if not batches:
            return CommittedRead(found, offset)
        seen = committed_in(batches, line.aborted_transactions or [])
        found += [record for record in seen if record.offset >= offset]
        offset = batches[-1].next_offset


def committed_values(client: PartitionClient) -> list[bytes | None]:
    """What can be read now, though it may have been committed before."""
    return read_committed(client).values


def settled_values(client: PartitionClient) -> list[bytes | None]:
    """What is committed, once nothing is open: a commit is acknowledged before it can be seen."""
    wait_until(lambda: stable_end(client) == client.offset_at(LATEST))
    return committed_values(client)


def stable_end(client: PartitionClient) -> int:
    """The last stable offset, as a consumer is told where the end is."""
    return client.offset_at(LATEST, isolation_level=READ_COMMITTED)
