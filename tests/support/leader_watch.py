"""What one client is told of a topic's leaders, and of where its partitions end, all the while.

    one leader        of a partition in one leader epoch, whoever is asked
    no way back       the latest offset that a leader tells never gets smaller; the client asks
                      whom it was told of in the highest epoch

Owner: a thread of its own, until ``stop``.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.storage.timestamp_lookup import LATEST_TIMESTAMP
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import HungUp, WireClient

INTERVAL_S = 0.03
#: A broker that is paused is not waited for.
PATIENCE_S = 1.0
NO_LEADER = -1
METADATA, LIST_OFFSETS = 9, 6


class Led(NamedTuple):
    """By whom, in which epoch; of two the later one is the larger."""

    epoch: int
    leader: int


class Latest(NamedTuple):
    """An offset, and who told it."""

    offset: int
    by: Led


class LeaderWatch:
    """Of one topic."""

    def __init__(self, brokers: Sequence[BrokerProcess], topic: str) -> None:
        self._brokers = brokers
        self._topic = topic
        self.leaders: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self.latest: defaultdict[int, list[Latest]] = defaultdict(list)
        #: What was told instead of offsets.
        self.refusals: Counter[ErrorCode] = Counter()
        self._wires: dict[int, WireClient] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()
        for wire in self._wires.values():
            wire.close()

    def check(self) -> None:
        several = {where: found for where, found in self.leaders.items() if len(found) > 1}
        assert not several, f"leaders by partition and epoch: {several}"
        for partition, latest in self.latest.items():
            for before, after in itertools.pairwise(latest):
                assert after.offset >= before.offset, (partition, before, after)

    def _watch(self) -> None:
        while not self._is_over.wait(INTERVAL_S):
            for number in range(len(self._brokers)):
                self._look_at(number)
            by_leader: defaultdict[int, dict[int, Led]] = defaultdict(dict)
            for partition, led in self._led().items():
                by_leader[led.leader][partition] = led
            for leader, partitions in by_leader.items():
                self._ask(leader, partitions)

    def _look_at(self, number: int) -> None:
        answer = self._told(number, ApiKey.METADATA, METADATA, topics=[{"name": self._topic}])
        for topic in answer.topics if answer else []:
            for each in topic.partitions:
                if each.leader_id != NO_LEADER:
                    self.leaders[each.partition_index, each.leader_epoch].add(each.leader_id)

    def _led(self) -> dict[int, Led]:
        found: dict[int, Led] = {}
        for (partition, epoch), leaders in self.leaders.items():
            led = Led(epoch, min(leaders))
            found[partition] = max(led, found.get(partition, led))
        return found

    def _ask(self, leader: int, partitions: Mapping[int, Led]) -> None:
        asked = [
            {
                "partition_index": at,
                "timestamp": LATEST_TIMESTAMP,
                "current_leader_epoch": led.epoch,
            }
            for at, led in partitions.items()
        ]
        answer = self._told(
            leader,
            ApiKey.LIST_OFFSETS,
            LIST_OFFSETS,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": self._topic, "partitions": asked}],
        )
        for line in answer.topics[0].partitions if answer else []:
            at = line.partition_index
            if line.error_code:
                self.refusals[ErrorCode.for_code(line.error_code)] += 1
            else:
                self.latest[at].append(Latest(line.offset, partitions[at]))

    def _told(self, number: int, key: ApiKey, version: int, **values: Any) -> Any:
        """None if the broker does not answer."""
        try:
            if number not in self._wires:
                address = self._brokers[number].address
                self._wires[number] = WireClient(address, timeout_s=PATIENCE_S)
            return self._wires[number].call(key, version, **values)
        except (OSError, HungUp):
            wire = self._wires.pop(number, None)
            if wire is not None:
                wire.close()
            return None
