"""Members of groups of clients in other languages, which a test polls by turns.

    broker   one for each module, whose groups do not wait for their first members
    topic    with as many records in each of its partitions

Owner: the thread of the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.group_members import send
from tests.support.group_wire import find_coordinator

PARTITIONS = 4
ALL = list(range(PARTITIONS))
EACH = 10
RECORDS = EACH * PARTITIONS
WAIT_S = 40.0
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "logs", *SETTINGS).start() as running:
        find_coordinator(running.address)
        yield running
        assert "Traceback" not in running.log_text


@pytest.fixture
def topic(broker: BrokerProcess, new_topic: Callable[..., str]) -> str:
    name = new_topic(partitions=PARTITIONS)
    send_more(broker, name)
    return name


def send_more(broker: BrokerProcess, topic: str) -> None:
    send(broker.address, topic, RECORDS, partitions=PARTITIONS)


class PolledMember(Protocol):
    #: All that it said last, for a test that fails.
    told: Any

    @property
    def assigned(self) -> list[int]: ...

    def poll(self) -> None: ...


def poll_until(condition: Callable[[], Any], *members: PolledMember) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, [member.told for member in members]
        for member in members:
            member.poll()


def share(first: PolledMember, second: PolledMember) -> bool:
    """Whether each has half of the partitions."""
    is_even = len(first.assigned) == len(second.assigned) == PARTITIONS // 2
    return is_even and sorted(first.assigned + second.assigned) == ALL
