"""A broker that is stopped while a log is compacted."""

import os
import signal

from odradek.protocol.records.builder import BatchBuilder
from tests.support.broker_process import BrokerProcess
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.worker_processes import of_linux, worker_of

SETTINGS = (
    "log.initial.task.delay.ms=0",
    "log.cleaner.backoff.ms=20",
    "log.cleaner.io.max.bytes.per.second=100",  # it lasts for as long as the test does
)
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.5, "segment_bytes": 50_000}
#: In a segment that can be compacted, and another.
BATCHES = 60


def batch(number):
    builder = BatchBuilder()
    builder.append(timestamp=number, key=b"always the same", value=bytes(1000))
    return builder.build()


@of_linux
def test_a_stop_does_not_wait_for_a_compaction_and_nothing_is_lost_by_it(tmp_path):
    with BrokerProcess(tmp_path / "logs", *SETTINGS).start() as broker:
        create_topic(broker.address, "compacted", **COMPACTED)
        with PartitionClient(broker.address, "compacted") as client:
            for number in range(BATCHES):
                client.produce(batch(number))
        # It cannot so much as hear that it is to end.
        os.kill(worker_of(broker), signal.SIGSTOP)
        broker.stop()
        broker.start()
        with PartitionClient(broker.address, "compacted") as client:
            offsets = []
            while len(offsets) < BATCHES:  # a fetch ends where a segment does
                offsets += [each.base_offset for each in client.batches(len(offsets))]
            assert offsets == [*range(BATCHES)]
        assert "Traceback" not in broker.log_text
