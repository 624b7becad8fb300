"""Transactions of franz-go, by its sessions that read and write, on a broker of ours."""

import time

import pytest

from tests.clients.test_groups import send
from tests.interop.test_foreign_groups_live import broker
from tests.support.committed_records import committed_values
from tests.support.foreign_modules import ClientUnavailable, go_program
from tests.support.foreign_program import ForeignProgram
from tests.support.group_members import committed, wait_until
from tests.support.new_topics import new_topic
from tests.support.partition_client import PartitionClient

__all__ = ["broker", "new_topic"]

PARTITIONS = 3
RECORDS = 60
WAIT_S = 40.0


@pytest.fixture(scope="module")
def program():
    try:
        binary = go_program()
    except ClientUnavailable as reason:
        pytest.skip(f"franz-go: {reason}")
    with ForeignProgram([str(binary), "franz-go"]) as running:
        yield running


class Copying:
    """From a source to a target, partition by partition, by sessions of one group."""

    def __init__(self, program, broker, source, target):
        self._program = program
        self._broker = broker
        self.source, self.target = source, target
        self.group = f"copies-{source}"
        self.sessions = []

    def open(self):
        asked = {"address": self._broker.address, "group": self.group, "topic": self.source}
        name = f"{self.group}-{len(self.sessions)}"
        handle = self._program.ask("open_session", transactional_id=name, **asked)
        self.sessions.append(handle)
        return handle

    def copy(self, session, *, is_committed=True):
        asked = {"target": self.target, "is_committed": is_committed}
        return self._program.ask("copy", handle=session, **asked)

    def close(self):
        for each in self.sessions:
            self._program.ask("close", handle=each)

    def values(self, topic, *, is_committed=True):
        """By partition."""
        found = []
        for number in range(PARTITIONS):
            with PartitionClient(self._broker.address, topic, number) as client:
                written = [each.value for each in client.records()]
                found.append(committed_values(client) if is_committed else written)
        return found

    def is_finished(self):
        ends = committed(self._broker.address, self.group)
        return sum(ends.values()) == sum(map(len, self.values(self.source)))


@pytest.fixture
def copying(program, broker, new_topic):
    source, target = new_topic(partitions=PARTITIONS), new_topic(partitions=PARTITIONS)
    made = Copying(program, broker, source, target)
    yield made
    made.close()


def copy_all(copying):
    deadline = time.monotonic() + WAIT_S
    while not copying.is_finished():
        assert time.monotonic() < deadline
        for session in copying.sessions:
            copying.copy(session)


def test_what_a_session_aborts_it_reads_again_and_nothing_is_copied_twice(copying, broker):
    session = copying.open()
    aborted = 0
    for _ in range(4):
        send(broker.address, copying.source, RECORDS // 4, partitions=PARTITIONS)
        told = {"records": []}
        deadline = time.monotonic() + WAIT_S
        while not told["records"]:
            assert time.monotonic() < deadline
            told = copying.copy(session, is_committed=False)
        assert not told["committed"]
        aborted += len(told["records"])
        copy_all(copying)
    sent = copying.values(copying.source)
    assert sum(map(len, sent)) == RECORDS
    # The session goes on before all markers are written.
    wait_until(lambda: copying.values(copying.target) == sent)
    everything = copying.values(copying.target, is_committed=False)
    assert sum(map(len, everything)) == RECORDS + aborted


def test_sessions_that_share_a_group_copy_everything_once(copying, broker):
    send(broker.address, copying.source, RECORDS, partitions=PARTITIONS)
    copying.open()
    copying.copy(copying.sessions[0])
    copying.open()
    copy_all(copying)
    send(broker.address, copying.source, RECORDS, partitions=PARTITIONS)
    copy_all(copying)
    sent = copying.values(copying.source)
    assert sum(map(len, sent)) == 2 * RECORDS
    # The session goes on before all markers are written.
    wait_until(lambda: copying.values(copying.target) == sent)
