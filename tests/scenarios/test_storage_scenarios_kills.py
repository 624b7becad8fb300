"""S13: a broker that is killed in the middle of a roll, of a flush, or of writing a checkpoint.

Each life of the broker ends at another call, and the next one recovers from it, with producers and
a consumer that go on all the while.  Every call of every write path is tried in tests/crash.
"""

import signal

import pytest

from tests.support.fault_points import Fault
from tests.support.faulty_broker import FaultyBroker
from tests.support.partition_client import create_topic
from tests.support.persistent_load import PersistentConsumer, PersistentProducer, check

TOPIC = "killed"
PARTITIONS = 2
END_TIMEOUT_S = 30
#: Everything is done all the time.
BUSY = (
    "log.flush.scheduler.interval.ms=50",
    "log.flush.interval.ms=50",
    "log.flush.offset.checkpoint.interval.ms=50",
    "replica.high.watermark.checkpoint.interval.ms=50",
    "log.initial.task.delay.ms=0",
)
SMALL = {"segment_bytes": 5_000, "index_interval_bytes": 500, "segment_index_bytes": 4_096}
RECOVERY_POINTS = "recovery-point-offset-checkpoint.tmp"
HIGH_WATERMARKS = "replication-offset-checkpoint.tmp"
MOMENTS = {
    "roll": [
        Fault("ftruncate .index", "before", nth=5),
        Fault("ftruncate .timeindex", "after", nth=5),
        Fault("open .snapshot", "after", nth=3),
        Fault("pwritev .snapshot", "torn", nth=3),
        Fault("open .log", "before", nth=3),
        Fault("open .log", "after", nth=2),
        Fault("open .index", "after", nth=3),
        Fault("fallocate .index", "after", nth=3),
        Fault("pwritev .log", "torn", nth=50),
    ],
    "flush": [
        Fault("fsync .log", "before", nth=3),
        Fault("fsync .index", "before", nth=3),
        Fault("fsync .timeindex", "after", nth=3),
        Fault("fsync .snapshot", "before", nth=2),
    ],
    "checkpoint": [
        Fault(f"open {RECOVERY_POINTS}", "after", nth=3),
        Fault(f"pwritev {RECOVERY_POINTS}", "torn", nth=2),
        Fault(f"rename {RECOVERY_POINTS}", "before", nth=3),
        Fault(f"rename {RECOVERY_POINTS}", "after", nth=2),
        Fault(f"pwritev {HIGH_WATERMARKS}", "torn", nth=3),
        Fault(f"rename {HIGH_WATERMARKS}", "before", nth=2),
    ],
}


@pytest.mark.parametrize("name", MOMENTS)
def test_s13_a_broker_killed_between_two_writes_loses_nothing(tmp_path, name):
    with FaultyBroker(tmp_path / "logs", *BUSY).start() as broker:
        create_topic(broker.address, TOPIC, partitions=PARTITIONS, **SMALL)
        producer = PersistentProducer(
            broker.address, TOPIC, name="value", partitions=PARTITIONS, **{"batch.num.messages": 10}
        )
        consumer = PersistentConsumer(broker.address, TOPIC, partitions=PARTITIONS)
        producer.start()
        consumer.start()
        broker.stop()
        for fault in MOMENTS[name]:
            broker.fault = fault
            broker.launch()
            assert broker.wait(timeout_s=END_TIMEOUT_S) == -signal.SIGKILL, fault
        broker.fault = None
        broker.start()
        producer.stop()
        consumer.wait_for(len(producer.acknowledged))
        consumer.stop()
        check([producer], [consumer])
        assert "Traceback" not in broker.log_text
    sent = sum(map(len, producer.sent.values()))
    assert len(producer.acknowledged) == sent > 100
