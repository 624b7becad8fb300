"""Transactional producers by raw sockets, each with one request at a time, in one process.

A transaction is, in the first version, AddPartitionsToTxn, Produce and EndTxn; in the second
(KIP-890) Produce and EndTxn.  It lasts from the moment at which its producer is free to begin until
its end is answered, so that waiting for markers of the one before counts: a coordinator that is
still busy with those is asked again after PAUSE_S, sooner than clients do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from struct import pack_into
from typing import Any

from broker_raw import CLIENT_ID, RECEIVED_AT_ONCE, REQUEST_TIMEOUT_MS, Refused, ask, connect

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

PAUSE_S = 0.0005
STALLED_S = 10.0
COORDINATOR_TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 60_000
TRANSACTIONAL_ID = 1
EPOCH_AND_SEQUENCE_POSITION = 51
CORRELATION_ID_BYTES = 4
#: In which versions the two kinds of transactions are asked for.
FIRST = {ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.PRODUCE: 9, ApiKey.END_TXN: 3}
SECOND = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5}
_NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLoad:
    """As many producers as ``names``, each in transactions of so many records to a partition."""

    address: str
    topic: str
    names: tuple[str, ...]
    records: int
    record_bytes: int
    seconds: float
    is_second: bool = False


@dataclass(frozen=True, slots=True)
class TransactionOutcome:
    transactions: int
    seconds: float
    latencies_ms: list[float]


def drive(load: TransactionLoad) -> TransactionOutcome:
    """Run the load in this process; raises Refused."""
    with ExitStack() as endings:
        producers = []
        for number, name in enumerate(load.names):
            producers.append(Transactor(load, name, partition=number))
            endings.callback(producers[-1].socket.close)
        by_socket = {each.socket: each for each in producers}
        started = time.perf_counter()
        for producer in producers:
            producer.begin(started)
        now, deadline = started, started + load.seconds
        while now < deadline:
            # Unlike poll and epoll, it does not take a pause for a whole millisecond.
            ready, _, _ = select.select(by_socket, (), (), _patience_s(producers, now))
            now = time.perf_counter()
            for each in ready:
                by_socket[each].receive(now)
            for producer in producers:
                producer.ask_again_if_due(now)
        seconds = now - started
    latencies_ms = [each * 1000 for one in producers for each in one.latencies_s]
    return TransactionOutcome(len(latencies_ms), seconds, latencies_ms)


def _patience_s(producers: Sequence[Transactor], now: float) -> float:
    due = [each.due for each in producers if each.due is not None]
    return max(0.0, min(due) - now) if due else STALLED_S


class Transactor:
    """One producer: what it has asked last, and how long its transactions took."""

    def __init__(self, load: TransactionLoad, name: str, *, partition: int) -> None:
        made = _made(load.address, name)
        self._load, self._name, self._partition = load, name, partition
        self._id, self._epoch, self._sequence = made.producer_id, made.producer_epoch, 0
        self._steps = SECOND if load.is_second else FIRST
        self._batch = _batch(load, self._id)
        self._asked = ApiKey.PRODUCE
        self._frame = b""
        self._received = bytearray()
        self._began = 0.0
        self.socket = connect(load.address)
        self.latencies_s: list[float] = []
        #: When it is to ask once more what it was not answered.
        self.due: float | None = None

    def begin(self, now: float) -> None:
        self._began = now
        self._ask(next(iter(self._steps)))

    def receive(self, now: float) -> None:
        chunk = self.socket.recv(RECEIVED_AT_ONCE)
        if not chunk:
            raise Refused("the connection was closed")
        self._received += chunk
        if len(self._received) < SIZE.size:
            return
        size = SIZE.unpack_from(self._received)[0] + SIZE.size
        if len(self._received) >= size:
            body = bytes(self._received[SIZE.size : size])
            self._received.clear()
            self._take(body, now)

    def ask_again_if_due(self, now: float) -> None:
        if self.due is not None and now >= self.due:
            self.due = None
            self.socket.sendall(self._frame)

    def _take(self, body: bytes, now: float) -> None:
        key, version = self._asked, self._steps[self._asked]
        header_bytes = CORRELATION_ID_BYTES + response_header_version(key, version)
        answer = decode(api(key).response, version, body, header_bytes)
        code = _error_code(key, answer)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.due = now + PAUSE_S
        elif code is not ErrorCode.NONE:
            raise Refused(f"{key.name}: {code.name}")
        elif key is ApiKey.END_TXN:
            self._ended(answer)
            self.latencies_s.append(now - self._began)
            self.begin(now)
        else:
            steps = list(self._steps)
            self._ask(steps[steps.index(key) + 1])

    def _ended(self, answer: Any) -> None:
        self._sequence += self._load.records
        if self._load.is_second:
            if answer.producer_id != self._id:
                self._id = answer.producer_id
                self._batch = _batch(self._load, self._id)
            self._epoch, self._sequence = answer.producer_epoch, 0

    def _ask(self, key: ApiKey) -> None:
        self._asked = key
        self._frame = _frame(key, self._steps[key], self._request(key))
        self.socket.sendall(self._frame)

    def _request(self, key: ApiKey) -> Message:
        if key is ApiKey.ADD_PARTITIONS_TO_TXN:
            topic = AddPartitionsToTxnTopic(name=self._load.topic, partitions=[self._partition])
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self._id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[topic],
            )
        if key is ApiKey.PRODUCE:
            entry = ProduceRequest.Topic.Partition(index=self._partition, records=self._records())
            return ProduceRequest(
                transactional_id=self._name,
                acks=-1,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[ProduceRequest.Topic(name=self._load.topic, partition_data=[entry])],
            )
        return EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=True,
        )

    def _records(self) -> bytes:
        """The same ones, under another sequence."""
        pack_into(">hi", self._batch, EPOCH_AND_SEQUENCE_POSITION, self._epoch, self._sequence)
        checksum = crc32c(self._batch[ATTRIBUTES_POSITION:])
        pack_into(">I", self._batch, CHECKSUM_POSITION, checksum)
        return bytes(self._batch)


def _error_code(key: ApiKey, answer: Any) -> ErrorCode:
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        (topic,) = answer.results_by_topic_v3_and_below
        return ErrorCode.of(topic.results_by_partition[0].partition_error_code)
    if key is ApiKey.PRODUCE:
        return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
    return ErrorCode.of(answer.error_code)


def _frame(key: ApiKey, version: int, request: Message) -> bytes:
    return b"".join(request_frame(key, version, 1, CLIENT_ID, request))


def _batch(load: TransactionLoad, producer_id: int) -> bytearray:
    fields = BatchFields(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder, value, timestamp = BatchBuilder(fields), bytes(load.record_bytes), _now_ms()
    for _ in range(load.records):
        builder.append(timestamp=timestamp, key=None, value=value)
    return builder.build()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _made(address: str, name: str) -> Any:
    """The id and epoch of a producer, once there is a coordinator."""
    finding = FindCoordinatorRequest(key=name, key_type=TRANSACTIONAL_ID)
    making = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    deadline = time.perf_counter() + COORDINATOR_TIMEOUT_S
    while time.perf_counter() < deadline:
        found = ask(address, ApiKey.FIND_COORDINATOR, 3, finding)
        answer = ask(address, ApiKey.INIT_PRODUCER_ID, 3, making)
        if not found.error_code and not answer.error_code:
            return answer
        code = ErrorCode.of(found.error_code or answer.error_code)
        if code not in _NOT_YET:
            raise Refused(f"a producer is not made: {code.name}")
        time.sleep(0.05)
    raise Refused(f"no coordinator in {COORDINATOR_TIMEOUT_S} s")
