"""A producer and a coordinator in one, that write to one partition by raw requests.

No coordinator of the broker's takes part: batches and markers come as the test sends them.  So the
broker must not ask one (``WITHOUT_QUESTIONS``).

Owner: the test's thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.storage.transaction_index import AbortedTxn
from tests.support.logs import records_batch
from tests.support.partition_client import READ_COMMITTED, PartitionClient
from tests.support.read_committed import committed_in

WITHOUT_QUESTIONS = "transaction.partition.verification.enable=false"
TRANSACTIONAL_ID = "t"
NO_OFFSET = -1


class TransactionalWriter:
    """``client`` is of the partition."""

    def __init__(self, client: PartitionClient) -> None:
        self.client = client
        self._sequences: Counter[int] = Counter()

    def write(self, producer_id: int, *values: bytes, epoch: int = 0) -> int:
        """In the producer's transaction; the first offset."""
        batch = records_batch(
            *values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[producer_id],
            is_transactional=True,
        )
        sent = {"transactional_id": TRANSACTIONAL_ID, **self.client.produce_values(batch)}
        line = self.client.answer_to_produce(self.client.wire.call(ApiKey.PRODUCE, 11, **sent))
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        self._sequences[producer_id] += len(values)
        return int(line.base_offset)

    def write_plain(self, *values: bytes) -> int:
        return int(self.client.produce(records_batch(*values)).base_offset)

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        topic = {"name": self.client.topic, "partition_indexes": [self.client.partition]}
        marker = {"producer_id": producer_id, "producer_epoch": epoch, "topics": [topic]}
        answer = self.client.wire.call(
            ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker | {"transaction_result": commit}]
        )
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code == 0, ErrorCode.for_code(code)

    def committed(self, offset: int = 0, **limits: Any) -> Sequence[Record]:
        """What a consumer with isolation level read_committed sees, fetch by fetch."""
        seen: list[Record] = []
        while True:
            line = self.client.fetch(offset, isolation_level=READ_COMMITTED, **limits)
            batches = list(batches_of_any_magic(bytes(line.records or b"")))
            if not batches:
                assert offset == line.last_stable_offset
                return seen
            aborted = [
                AbortedTxn(each.producer_id, each.first_offset, NO_OFFSET, NO_OFFSET)
                for each in line.aborted_transactions
            ]
            seen += [each for each in committed_in(batches, aborted) if each.offset >= offset]
            offset = batches[-1].next_offset
