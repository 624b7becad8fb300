"""Transactional producers on raw sockets, each with one request in flight, in one process.

A transaction consists of AddPartitionsToTxn, Produce and EndTxn in version 1, and of Produce and
EndTxn in version 2 (KIP-890).  It lasts from the moment when its producer is free to begin until
the EndTxn response, so the wait for the markers of the previous transaction counts.  If the
coordinator still writes those markers, the request is retried after RETRY_BACKOFF_S, which is
sooner than clients retry.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from struct import pack_into
from typing import Any

from raw_driver import (
    CLIENT_ID,
    RECEIVE_BYTES,
    REQUEST_TIMEOUT_MS,
    RequestFailed,
    connect,
    send_and_receive,
)

from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import SIZE, request_frame, response_header_version
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, CHECKSUM_POSITION
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.registry import api
from odradek.protocol.schema import Message

RETRY_BACKOFF_S = 0.0005
STALL_TIMEOUT_S = 10.0
COORDINATOR_TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 60_000
TRANSACTION_KEY_TYPE = 1
EPOCH_AND_SEQUENCE_POSITION = 51
CORRELATION_ID_BYTES = 4
#: The API versions of a transaction, in the order of its requests.
TRANSACTION_V1_VERSIONS = {ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.PRODUCE: 9, ApiKey.END_TXN: 3}
TRANSACTION_V2_VERSIONS = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5}
_RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLoad:
    """One producer per transactional id; each transaction writes ``records`` to one partition."""

    address: str
    topic: str
    transactional_ids: tuple[str, ...]
    records: int
    record_bytes: int
    seconds: float
    is_transaction_v2: bool = False


@dataclass(frozen=True, slots=True)
class TransactionResult:
    transactions: int
    seconds: float
    latencies_ms: list[float]


def run_transaction_load(load: TransactionLoad) -> TransactionResult:
    """Run the load in this process.  Raises RequestFailed."""
    with ExitStack() as exit_stack:
        producers = []
        for number, name in enumerate(load.transactional_ids):
            producers.append(TransactionalProducer(load, name, partition=number))
            exit_stack.callback(producers[-1].socket.close)
        by_socket = {each.socket: each for each in producers}
        started = time.perf_counter()
        for producer in producers:
            producer.begin(started)
        now, deadline = started, started + load.seconds
        while now < deadline:
            # poll and epoll would round a backoff up to a whole millisecond; select does not.
            ready, _, _ = select.select(by_socket, (), (), _select_timeout_s(producers, now))
            now = time.perf_counter()
            for each in ready:
                by_socket[each].receive(now)
            for producer in producers:
                producer.retry_if_due(now)
        seconds = now - started
    latencies_ms = [each * 1000 for one in producers for each in one.latencies_s]
    return TransactionResult(len(latencies_ms), seconds, latencies_ms)


def _select_timeout_s(producers: Sequence[TransactionalProducer], now: float) -> float:
    due = [each.retry_at for each in producers if each.retry_at is not None]
    return max(0.0, min(due) - now) if due else STALL_TIMEOUT_S


class TransactionalProducer:
    """One producer with its pending request and the latencies of its transactions."""

    def __init__(self, load: TransactionLoad, transactional_id: str, *, partition: int) -> None:
        init_response = _init_producer_id(load.address, transactional_id)
        self._load, self._transactional_id, self._partition = load, transactional_id, partition
        self._producer_id, self._producer_epoch, self._sequence = (
            init_response.producer_id,
            init_response.producer_epoch,
            0,
        )
        self._api_versions = (
            TRANSACTION_V2_VERSIONS if load.is_transaction_v2 else TRANSACTION_V1_VERSIONS
        )
        self._batch = _build_batch(load, self._producer_id)
        self._pending_api_key = ApiKey.PRODUCE
        self._frame = b""
        self._received = bytearray()
        self._started_at = 0.0
        self.socket = connect(load.address)
        self.latencies_s: list[float] = []
        #: When to repeat the request that was rejected with CONCURRENT_TRANSACTIONS.
        self.retry_at: float | None = None

    def begin(self, now: float) -> None:
        self._started_at = now
        self._send_request(next(iter(self._api_versions)))

    def receive(self, now: float) -> None:
        chunk = self.socket.recv(RECEIVE_BYTES)
        if not chunk:
            raise RequestFailed("the connection was closed")
        self._received += chunk
        if len(self._received) < SIZE.size:
            return
        size = SIZE.unpack_from(self._received)[0] + SIZE.size
        if len(self._received) >= size:
            body = bytes(self._received[SIZE.size : size])
            self._received.clear()
            self._handle_response(body, now)

    def retry_if_due(self, now: float) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self.socket.sendall(self._frame)

    def _handle_response(self, body: bytes, now: float) -> None:
        key, version = self._pending_api_key, self._api_versions[self._pending_api_key]
        header_bytes = CORRELATION_ID_BYTES + response_header_version(key, version)
        response = decode(api(key).response, version, body, header_bytes)
        code = _error_code(key, response)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.retry_at = now + RETRY_BACKOFF_S
        elif code is not ErrorCode.NONE:
            raise RequestFailed(f"{key.name}: {code.name}")
        elif key is ApiKey.END_TXN:
            self._on_transaction_end(response)
            self.latencies_s.append(now - self._started_at)
            self.begin(now)
        else:
            steps = list(self._api_versions)
            self._send_request(steps[steps.index(key) + 1])

    def _on_transaction_end(self, response: Any) -> None:
        self._sequence += self._load.records
        if self._load.is_transaction_v2:
            if response.producer_id != self._producer_id:
                self._producer_id = response.producer_id
                self._batch = _build_batch(self._load, self._producer_id)
            self._producer_epoch, self._sequence = response.producer_epoch, 0

    def _send_request(self, key: ApiKey) -> None:
        self._pending_api_key = key
        self._frame = _encode_request(key, self._api_versions[key], self._build_request(key))
        self.socket.sendall(self._frame)

    def _build_request(self, key: ApiKey) -> Message:
        if key is ApiKey.ADD_PARTITIONS_TO_TXN:
            topic = AddPartitionsToTxnTopic(name=self._load.topic, partitions=[self._partition])
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._producer_epoch,
                v3_and_below_topics=[topic],
            )
        if key is ApiKey.PRODUCE:
            entry = ProduceRequest.Topic.Partition(
                index=self._partition, records=self._next_batch()
            )
            return ProduceRequest(
                transactional_id=self._transactional_id,
                acks=-1,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[ProduceRequest.Topic(name=self._load.topic, partition_data=[entry])],
            )
        return EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=True,
        )

    def _next_batch(self) -> bytes:
        """Return the same batch with the current epoch and sequence."""
        pack_into(
            ">hi", self._batch, EPOCH_AND_SEQUENCE_POSITION, self._producer_epoch, self._sequence
        )
        checksum = crc32c(self._batch[ATTRIBUTES_POSITION:])
        pack_into(">I", self._batch, CHECKSUM_POSITION, checksum)
        return bytes(self._batch)


def _error_code(key: ApiKey, response: Any) -> ErrorCode:
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        (topic,) = response.results_by_topic_v3_and_below
        return ErrorCode.for_code(topic.results_by_partition[0].partition_error_code)
    if key is ApiKey.PRODUCE:
        return ErrorCode.for_code(response.responses[0].partition_responses[0].error_code)
    return ErrorCode.for_code(response.error_code)


def _encode_request(key: ApiKey, version: int, request: Message) -> bytes:
    return b"".join(request_frame(key, version, 1, CLIENT_ID, request))


def _build_batch(load: TransactionLoad, producer_id: int) -> bytearray:
    fields = BatchFields(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder, value, timestamp = BatchBuilder(fields), bytes(load.record_bytes), _now_ms()
    for _ in range(load.records):
        builder.append(timestamp=timestamp, key=None, value=value)
    return builder.build()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _init_producer_id(address: str, transactional_id: str) -> Any:
    """Return the producer id and epoch, once the coordinator is available."""
    find_request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY_TYPE)
    init_request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    deadline = time.perf_counter() + COORDINATOR_TIMEOUT_S
    while time.perf_counter() < deadline:
        find_response = send_and_receive(address, ApiKey.FIND_COORDINATOR, 3, find_request)
        response = send_and_receive(address, ApiKey.INIT_PRODUCER_ID, 3, init_request)
        if not find_response.error_code and not response.error_code:
            return response
        code = ErrorCode.for_code(find_response.error_code or response.error_code)
        if code not in _RETRIABLE_ERRORS:
            raise RequestFailed(f"InitProducerId failed: {code.name}")
        time.sleep(0.05)
    raise RequestFailed(f"no coordinator in {COORDINATOR_TIMEOUT_S} s")
