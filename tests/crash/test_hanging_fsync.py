"""A sync that hangs or fails yields no acknowledgement, and only its own directory is out of use.

Of the two log directories of a broker process one is sick; acknowledgements wait for the sync, but
for those of topics that leave it to the system.
"""

import signal
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.batches import batch_of
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.sick_disk import SickDiskBroker
from tests.support.wire_client import HungUp

SYNCED, LAZY = "synced", "lazy"
FLUSH = "log.flush.interval.messages=1"
NEVER = 1 << 62
TIMEOUT_MS = 20_000
VERSION = 9
#: More than there are threads for syncing.
MANY = 20
ACKS = pytest.mark.parametrize("acks", [1, -1], ids=["acks=1", "acks=all"])
OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR.code


class Writer(PartitionClient):
    """One that need not wait for the answer."""

    def send(self, value, *, acks=1, timeout_ms=TIMEOUT_MS):
        values = self.produce_values(batch_of(value))
        self.wire.send(ApiKey.PRODUCE, VERSION, **values | {"acks": acks, "timeout_ms": timeout_ms})

    def line(self):
        return self.answer_to_produce(self.wire.answer(ApiKey.PRODUCE, VERSION))

    def write(self, value, **more):
        """Its error code."""
        self.send(value, **more)
        return self.line().error_code

    def is_answered(self):
        return self.wire.is_answered()

    def values(self):
        return [bytes(record.value) for record in self.records()]


@dataclass
class Disks:
    """A broker with two directories, and a topic of either kind in each."""

    broker: SickDiskBroker
    sick: Path
    well: Path

    def writer(self, kind, directory):
        (name,) = [path.name[:-2] for path in directory.glob(f"{kind}-*-0")]
        return Writer(self.broker.address, name)

    def hang(self, writer, value, **more):
        """Send something whose sync hangs when this returns."""
        self.broker.hang_syncs(self.sick)
        writer.send(value, **more)
        self.broker.wait_until_hanging(self.sick / f"{writer.topic}-0")

    def check_others_are_served(self):
        for kind, directory in ((LAZY, self.sick), (SYNCED, self.well)):
            with self.writer(kind, directory) as other:
                assert other.write(b"meanwhile") == 0
        create(self.broker, "meanwhile")


def create(broker, name, **configs):
    create_topic(broker.address, name, retention_ms=-1, **configs)  # what is written is of 1970


@pytest.fixture
def disks(tmp_path):
    sick, well = tmp_path / "logs", tmp_path / "more"
    with SickDiskBroker(sick, f"log.dirs={sick},{well}", FLUSH).start() as broker:
        for number in (1, 2):
            create(broker, f"{SYNCED}-{number}")
        for number in (1, 2):
            create(broker, f"{LAZY}-{number}", flush_messages=NEVER)
        yield Disks(broker, sick, well)


@pytest.fixture
def writer(disks):
    """To the topic whose syncs can be made sick, in which there is a record."""
    with disks.writer(SYNCED, disks.sick) as made:
        assert made.write(b"a") == 0
        yield made


@ACKS
def test_a_sync_that_hangs_yields_no_acknowledgement_until_it_ends(disks, writer, acks):
    disks.hang(writer, b"b", acks=acks)
    disks.check_others_are_served()
    assert not writer.is_answered()
    disks.broker.heal()
    line = writer.line()
    assert (line.error_code, line.base_offset) == (0, 1)
    assert writer.values() == [b"a", b"b"]


def test_who_does_not_want_to_wait_longer_is_told_that_it_took_too_long(disks, writer):
    disks.broker.hang_syncs(disks.sick)
    assert writer.write(b"b", timeout_ms=50) == ErrorCode.REQUEST_TIMED_OUT.code


def test_however_many_syncs_hang_other_directories_are_served(disks):
    broker, many = disks.broker, "many"
    create(broker, many, partitions=2 * MANY)
    hanging = [int(path.name.rpartition("-")[2]) for path in disks.sick.glob("many-*")]
    assert len(hanging) >= MANY / 2
    broker.hang_syncs(disks.sick)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(Writer(broker.address, many, partition)) for partition in hanging
        ]
        for each in writers:
            each.send(b"a")
        disks.check_others_are_served()
        assert not any(each.is_answered() for each in writers)
        broker.heal()
        assert {each.line().error_code for each in writers} == {0}


@ACKS
def test_a_sync_that_fails_yields_no_acknowledgement_and_loses_nothing(disks, writer, acks):
    with disks.writer(LAZY, disks.sick) as lazy, disks.writer(SYNCED, disks.well) as well:
        assert lazy.write(b"a") == 0
        disks.broker.fail_syncs(disks.sick)
        assert writer.write(b"lost", acks=acks) == OFFLINE
        assert writer.write(b"lost") == OFFLINE
        assert lazy.write(b"lost") == OFFLINE
        assert well.write(b"a") == 0
        create(disks.broker, "meanwhile")
    check_after_restart(disks.broker, writer.topic, lazy.topic, well.topic)


@ACKS
def test_a_sync_that_hangs_and_then_fails_yields_no_acknowledgement(disks, writer, acks):
    disks.hang(writer, b"b", acks=acks)
    with Writer(disks.broker.address, writer.topic) as later:
        later.send(b"c", acks=acks)
        disks.broker.fail_syncs(disks.sick)
        assert writer.line().error_code == OFFLINE
        assert later.line().error_code == OFFLINE
    check_after_restart(disks.broker, writer.topic)


def test_a_kill_while_a_sync_hangs_loses_nothing_acknowledged(disks, writer):
    disks.hang(writer, b"b")
    disks.broker.kill()
    with pytest.raises(HungUp):
        writer.line()
    check_after_restart(disks.broker, writer.topic)


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_waits_for_a_sync_until_a_second_signal_ends_it_at_once(disks, writer, again):
    broker = disks.broker
    disks.hang(writer, b"b")
    begin_to_stop(broker)
    broker.send(again)
    assert broker.wait(timeout_s=5) == 128 + again
    with pytest.raises(HungUp):
        writer.line()
    last_line = broker.log_text.splitlines()[-1]
    assert last_line.startswith(f"odradek: {again.name} received again: exiting now")
    check_after_restart(broker, writer.topic)


def test_a_sync_that_ends_late_lets_the_broker_stop_well(disks, writer):
    disks.hang(writer, b"b")
    begin_to_stop(disks.broker)
    assert disks.broker.is_alive()
    disks.broker.heal()
    assert disks.broker.wait() == 0
    check_after_restart(disks.broker, writer.topic, values=[b"a", b"b"])


def begin_to_stop(broker):
    broker.send(signal.SIGTERM)
    broker.wait_until_told("Terminating process due to signal SIGTERM")


def test_if_no_directory_is_left_the_broker_ends_and_has_acknowledged_nothing(tmp_path):
    with SickDiskBroker(tmp_path / "logs", FLUSH).start() as broker:
        create(broker, SYNCED)
        with Writer(broker.address, SYNCED) as writer:
            assert writer.write(b"a") == 0
            broker.fail_syncs(broker.data_dir)
            with suppress(HungUp):
                assert writer.write(b"b") == OFFLINE
        assert broker.wait() == 1
        assert "all log dirs have failed" in broker.log_text
        check_after_restart(broker, SYNCED)


def check_after_restart(broker, *topics, values=(b"a",)):
    """On a disk that works again: what was acknowledged is there, and more can be written."""
    broker.heal()
    broker.restart()
    assert "Traceback" not in broker.log_text
    for topic in topics:
        with Writer(broker.address, topic) as writer:
            assert writer.values()[: len(values)] == [*values]
            assert writer.write(b"after") == 0
            assert writer.values()[-1] == b"after"
