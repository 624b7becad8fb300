"""Transactional producers by raw requests: exactly what is asked for, and the answer by its name.

    with WireProducer(broker.address, "copier") as producer:
        producer.init()
        producer.write("events", b"value")
        producer.commit()

``ask_*`` send one request and tell the name of the error, or of none.  What has no ``ask_`` goes on
until a coordinator that is busy, loading or elsewhere has done it, as every client does, and
must succeed.

Owner: the thread of the test.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.group_wire import WireMember
from tests.support.partition_client import PartitionClient
from tests.support.wire_client import WireClient, call

TRANSACTION = 1  # as the type of a coordinator
WAIT_S = 30.0
PAUSE_S = 0.005
#: What is said for a while.
PASSING = frozenset(
    {
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    }
)


def name_of(error_code: int) -> str:
    return ErrorCode.for_code(error_code).name


def settled(ask: Callable[[], str]) -> str:
    """The first answer that is not one that will pass."""
    deadline = time.monotonic() + WAIT_S
    while (answer := ask()) in PASSING:
        assert time.monotonic() < deadline, answer
        time.sleep(PAUSE_S)
    return answer


class WireProducer:
    """Knows its id, epoch and sequences; a test may change them."""

    def __init__(self, address: str, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self.wire = WireClient(address)
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.id = -1
        self.epoch = -1
        self.sequences: defaultdict[tuple[str, int], int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.wire.close()

    def init(self) -> None:
        find_coordinator(self.wire, self.transactional_id)
        _must(self.ask_init)

    def ask_init(self, *, version: int = 4, **known: int) -> str:
        """``known`` are the id and epoch that it says it has (KIP-360)."""
        answer = self.wire.call(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            **known,
        )
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return name_of(answer.error_code)

    def add(self, topic: str, *partitions: int) -> None:
        _must(lambda: self.ask_add(topic, *partitions))

    def ask_add(self, topic: str, *partitions: int, version: int = 3) -> str:
        named = {f"v3_and_below_{name}": value for name, value in self._named().items()}
        named["v3_and_below_topics"] = [{"name": topic, "partitions": [*(partitions or [0])]}]
        answer = self.wire.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, **named)
        (line, *_) = answer.results_by_topic_v3_and_below[0].results_by_partition
        return name_of(line.partition_error_code)

    def write(self, topic: str, *values: bytes, partition: int = 0, **more: Any) -> None:
        """Add the partition and produce to it."""
        self.add(topic, partition)
        answer = self.ask_produce(topic, *values, partition=partition, **more)
        assert answer == "NONE", answer

    def ask_produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        timestamp_ms: int | None = None,
        version: int = 9,
        leader: WireClient | None = None,
    ) -> str:
        """``leader`` is where to, if another broker leads the partition."""
        sequence = self.sequences[topic, partition]
        at_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        batch = batch_of(
            *(Record(number, at_ms, None, value, ()) for number, value in enumerate(values)),
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        wire = leader or self.wire
        client = PartitionClient("", topic, partition, over=wire)
        asked = client.produce_values(batch) | {"transactional_id": self.transactional_id}
        answer = client.answer_to_produce(wire.call(ApiKey.PRODUCE, version, **asked))
        if not answer.error_code:
            self.sequences[topic, partition] = sequence + len(values)
        return name_of(answer.error_code)

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        """Of partition 0, as part of the transaction."""
        _must(lambda: self.ask_add_offsets(group))
        _must(lambda: self.ask_commit_offset(group, topic, offset))

    def ask_add_offsets(self, group: str, *, version: int = 3) -> str:
        asked = self._named() | {"group_id": group}
        return name_of(self.wire.call(ApiKey.ADD_OFFSETS_TO_TXN, version, **asked).error_code)

    def ask_commit_offset(
        self,
        group: str,
        topic: str,
        offset: int,
        *,
        member: WireMember | None = None,
        version: int = 3,
    ) -> str:
        line = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        asked: dict[str, Any] = {"topics": [{"name": topic, "partitions": [line]}]}
        if member is not None:
            asked |= {"generation_id": member.generation, "member_id": member.id}
            asked |= {"group_instance_id": member.instance}
        answer = self.wire.call(
            ApiKey.TXN_OFFSET_COMMIT, version, group_id=group, **self._named(), **asked
        )
        return name_of(answer.topics[0].partitions[0].error_code)

    def commit(self) -> None:
        """And wait until it is done everywhere."""
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        _must(lambda: self.ask_end(committed=committed))
        # Asked again it is answered when nothing is left to do.
        _must(lambda: self.ask_end(committed=committed))

    def ask_end(self, *, committed: bool, version: int = 3) -> str:
        self.send_end(committed=committed, version=version)
        answer = self.wire.answer(ApiKey.END_TXN, version)
        if not answer.error_code and answer.producer_id >= 0:
            self._begin_epoch(answer.producer_id, answer.producer_epoch)
        return name_of(answer.error_code)

    def send_end(self, *, committed: bool, version: int = 3) -> None:
        """Without waiting for the answer."""
        self.wire.send(ApiKey.END_TXN, version, **self._named(), committed=committed)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self.id, self.epoch = producer_id, epoch
            self.sequences.clear()

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }


def _must(ask: Callable[[], str]) -> None:
    answer = settled(ask)
    assert answer == "NONE", answer


def find_coordinator(wire: WireClient, transactional_id: str) -> None:
    """Until there is one."""

    def ask() -> str:
        asked = {"key_type": TRANSACTION, "coordinator_keys": [transactional_id]}
        answer = wire.call(ApiKey.FIND_COORDINATOR, 4, **asked)
        return name_of(answer.coordinators[0].error_code)

    _must(ask)


def described(address: str, transactional_id: str) -> Any:
    """As its coordinator has it."""
    answers: list[Any] = []

    def ask() -> str:
        answer = call(
            address, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id]
        )
        answers[:] = answer.transaction_states
        return name_of(answers[0].error_code)

    _must(ask)
    return answers[0]


def state_of(address: str, transactional_id: str) -> str:
    return str(described(address, transactional_id).transaction_state)


def stable_offset(address: str, group: str, topic: str) -> int | str:
    """What is committed for partition 0, or the name of the error: OffsetFetch, stable only."""
    topics = [{"name": topic, "partition_indexes": [0]}]
    asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
    with WireClient(address) as wire:
        while True:
            answer = wire.call(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=True)
            if name_of(answer.groups[0].error_code) not in PASSING:
                break
    line = answer.groups[0].topics[0].partitions[0]
    return name_of(line.error_code) if line.error_code else int(line.committed_offset)
