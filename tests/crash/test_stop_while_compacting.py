"""A broker that is stopped while a log is compacted."""

import os
import signal

from odradek.protocol.records.builder import BatchBuilder
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.worker_processes import of_linux, worker_of

SETTINGS = (
    "log.initial.task.delay.ms=0",
    "log.cleaner.backoff.ms=20",
    "log.cleaner.io.max.bytes.per.second=60000",  # so that it can be met in the middle
)
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.5, "segment_bytes": 80_000}
#: In a segment that can be compacted, and another.
BATCHES = 100


def batch(number):
    builder = BatchBuilder()
    builder.append(timestamp=number, key=b"%d" % number, value=bytes(1000))
    return builder.build()


@of_linux
def test_a_stop_does_not_wait_for_a_compaction_and_nothing_is_lost_by_it(tmp_path):
    with BrokerProcess(tmp_path / "logs", *SETTINGS).start() as broker:
        create_topic(broker.address, "compacted", **COMPACTED)
        with PartitionClient(broker.address, "compacted") as client:
            for number in range(BATCHES):
                client.produce(batch(number))
        wait_until(lambda: being_compacted(broker))
        # It cannot so much as hear that it is to end.
        os.kill(worker_of(broker), signal.SIGSTOP)
        broker.stop()
        left_behind = being_compacted(broker)
        broker.start()
        with PartitionClient(broker.address, "compacted") as client:
            offsets = []
            while len(offsets) < BATCHES:  # a fetch ends where a segment does
                offsets += [each.base_offset for each in client.batches(len(offsets))]
            assert offsets == [*range(BATCHES)]
        assert left_behind
        assert not any(path.exists() for path in left_behind)
        assert "Traceback" not in broker.log_text


def being_compacted(broker):
    return [*broker.data_dir.glob("compacted-0/*.cleaned")]
