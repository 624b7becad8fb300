"""A client that writes and reads for as long as others do their worst.

    with HealthyClient(broker.address):
        ...

It fails at the end if it was refused anything, had to wait for long, or got nothing done.

Owner: a thread of its own.
"""

from __future__ import annotations

import threading
import time
from typing import Self

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import DecodeError
from tests.support.batches import batch_of
from tests.support.wire_client import HungUp, WireClient, call

TOPIC = "healthy"
WAIT_S_MAX = 5.0
ROUNDS_MIN = 3
END_TIMEOUT_S = 30
TIMEOUT_MS = 10_000


class HealthyClient:
    """``rounds`` have been made, the slowest in ``slowest_s``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: BaseException | None = None
        self.rounds = 0
        self.slowest_s = 0.0

    def __enter__(self) -> Self:
        # Its records are of 1970, and shall stay.
        forever = {"name": "retention.ms", "value": "-1"}
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "configs": [forever]}
        call(self._address, ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout_ms=TIMEOUT_MS)
        self._thread.start()
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.rounds < ROUNDS_MIN and self._thread.is_alive():
            assert time.monotonic() < deadline, "the healthy client gets nothing done"
            time.sleep(0.01)
        self._is_over.set()
        self._thread.join(END_TIMEOUT_S)
        if failure is None:
            assert self._failure is None, self._failure
            assert self.slowest_s < WAIT_S_MAX

    def _work(self) -> None:
        try:
            with WireClient(self._address) as client:
                while not self._is_over.is_set():
                    begun = time.monotonic()
                    self._round(client)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
                    self.rounds += 1
                    self._is_over.wait(0.005)
        except (OSError, HungUp, DecodeError, AssertionError) as failure:
            self._failure = failure

    def _round(self, client: WireClient) -> None:
        value = b"round %d" % self.rounds
        sent = {"index": 0, "records": bytes(batch_of(value))}
        topic = {"name": TOPIC, "partition_data": [sent]}
        answer = client.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        line = answer.responses[0].partition_responses[0]
        assert line.error_code == 0, line
        asked = {"partition": 0, "fetch_offset": line.base_offset, "partition_max_bytes": 1 << 20}
        fetched = client.call(
            ApiKey.FETCH,
            12,
            max_wait_ms=TIMEOUT_MS,
            min_bytes=1,
            topics=[{"topic": TOPIC, "partitions": [asked]}],
        )
        found = fetched.responses[0].partitions[0]
        assert found.error_code == 0, found
        assert value in bytes(found.records)
