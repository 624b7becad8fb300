"""Measures log compaction in MB of log per second, and the ratio to Apache Kafka's cleaner.

    python benchmarks/compaction.py [--megabytes 200] [--directory DIR] [--no-kafka]

The log has records of 1 KB in batches of 16 KB, and five records per key.  Half of each value is
random, so zstd can compress part of it.  Both cleaners compact the same files and must keep the
same number of records.  Kafka's speed is the one that its cleaner reports, in a newly started
broker with the JVM's default compiler settings.  If Kafka cannot run, only ours is measured.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent.parent))

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.cleaner import clean, remove_cleaned_files
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import CleaningResult, build_cleaning_task
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log
from odradek.storage.settings import TopicSettings
from odradek.storage.unified_log import UnifiedLog
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.kafka_jars import KafkaUnavailable

MIB = 1024 * 1024
CODECS = (Codec.NONE, Codec.ZSTD)
RECORD_BYTES = 1024
RECORDS_PER_BATCH = 16
RECORDS_PER_KEY = 5
SEGMENT_BYTES = 64 * MIB
ROUNDS = 3
TIMEOUT_S = 120
#: The test harness runs brokers with the C1 compiler; these options override that.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=4 -Xmx1g"
CLEANER_REPORT = (
    r"cleaned log {topic}-0 .*?\(([\d,.]+) MB/sec\).*?End size: [\d,.]+ MB \(([\d,]+) mess"
)


def main() -> None:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="odradek-compaction-", dir=arguments.directory))
    try:
        compare(root, megabytes=arguments.megabytes, with_kafka=not arguments.no_kafka)
    finally:
        shutil.rmtree(root)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=200, help="size of each log")
    parser.add_argument("--directory", help="data directory; default: a temporary directory")
    parser.add_argument("--no-kafka", action="store_true", help="do not compare with Apache Kafka")
    return parser.parse_args()


def compare(root: Path, *, megabytes: int, with_kafka: bool) -> None:
    """Fill one log per codec below ``root``, compact them, and print the speeds."""
    logs = {
        codec: _fill_log(root / f"{codec.name.lower()}-0", codec, megabytes) for codec in CODECS
    }
    kafka_results: dict[Codec, tuple[float, int]] = {}
    if with_kafka:
        try:
            kafka_results = _measure_kafka(root / "kafka", logs)
        except KafkaUnavailable as reason:
            print(f"Apache Kafka is not available: {reason}")
    for codec, log in logs.items():
        speed, result = _measure_odradek(log)
        text = f"compaction, {codec.name.lower():5} {speed:6.1f} MB/s"
        if codec in kafka_results:
            kafka_speed, kafka_count = kafka_results[codec]
            text += f", Apache Kafka {kafka_speed:6.1f} MB/s, ratio {speed / kafka_speed:.2f}"
            assert result.stats.records_written == kafka_count, (result, kafka_count)
        print(text)
        log.close_handlers()


def _fill_log(directory: Path, codec: Codec, megabytes: int) -> UnifiedLog:
    directory.mkdir()
    params = LoadLogParams(
        directory=directory,
        partition=TopicPartition(codec.name.lower(), 0),
        settings=TopicSettings(segment_bytes=SEGMENT_BYTES, cleanup_policy=("compact",)),
        producer_settings=SimpleNamespace(
            producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
        ),
    )
    log = open_log(params, LogLoadReport())
    now_ms = int(time.time() * 1000)
    for batch in _batches(codec, count=megabytes * MIB // RECORD_BYTES, now_ms=now_ms):
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(log.log_end_offset)
    log.roll(now_ms=now_ms)
    log.flush(now_ms=now_ms)
    return log


def _batches(codec: Codec, *, count: int, now_ms: int) -> Iterator[bytearray]:
    rng = random.Random(1)
    keys = count // RECORDS_PER_KEY
    for first in range(0, count, RECORDS_PER_BATCH):
        builder = BatchBuilder(BatchFields(codec=codec))
        for number in range(first, min(first + RECORDS_PER_BATCH, count)):
            value = rng.randbytes(RECORD_BYTES // 2) + b"%08d" % number * (RECORD_BYTES // 16)
            builder.append(timestamp=now_ms, key=b"key-%d" % rng.randrange(keys), value=value)
        yield builder.build()


def _measure_odradek(log: UnifiedLog) -> tuple[float, CleaningResult]:
    """Return the MB per second of the fastest round, and the result of the last."""
    end_offset = log.segments.active.base_offset
    best = float("inf")
    for _ in range(ROUNDS):
        task = build_cleaning_task(
            log,
            CleanerSettings(),
            first_dirty_offset=0,
            first_uncleanable_offset=end_offset,
            now_ms=int(time.time() * 1000),
        )
        start = time.perf_counter()
        result = clean(task)
        best = min(best, time.perf_counter() - start)
        assert result.end_offset == end_offset, "the offset map is too small for this log"
        remove_cleaned_files(log.directory)
    return log.size_bytes / MIB / best, result


def _measure_kafka(
    directory: Path, logs: dict[Codec, UnifiedLog]
) -> dict[Codec, tuple[float, int]]:
    """Return the MB per second and the remaining records, as the broker's cleaner reports them."""
    os.environ["_JAVA_OPTIONS"] = JAVA_OPTIONS
    with ZooKeeper(directory) as zookeeper:
        properties = {
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.dedupe.buffer.size": "134217728",
        }
        broker = zookeeper_broker(directory, zookeeper=zookeeper.address, properties=properties)
        with broker:
            for log in logs.values():
                _create_topic(broker, log.partition.topic)
        for log in logs.values():
            _copy_segments(broker, log)
        with broker:
            return {codec: _measure_kafka_topic(broker, log) for codec, log in logs.items()}


def _create_topic(broker: ApacheKafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(TIMEOUT_S)


def _copy_segments(broker: ApacheKafka, log: UnifiedLog) -> None:
    """Replace the segments of the stopped broker by ours."""
    directory = broker.data_directory / log.directory.name
    for pattern in ("*.log", "*.index", "*.timeindex", "*.snapshot"):
        for path in directory.glob(pattern):
            path.unlink()
    for segment in log.segments:
        segment.seal()
        for path in log.directory.glob(f"{segment.base_offset:020}.*"):
            shutil.copy(path, directory)


def _measure_kafka_topic(broker: ApacheKafka, log: UnifiedLog) -> tuple[float, int]:
    topic = log.partition.topic
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    _wait_until(lambda: topic in admin.list_topics(timeout=TIMEOUT_S).topics, f"no topic {topic}")
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    report = re.compile(CLEANER_REPORT.format(topic=topic), re.DOTALL)
    _wait_until(lambda: report.search(broker.log.read_text()), f"no compaction of {topic}")
    match = report.search(broker.log.read_text())
    assert match is not None
    speed, count = (text.replace(",", "") for text in match.groups())
    return float(speed), int(count)


def _wait_until(condition: Callable[[], object], failure_message: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"{failure_message} within {TIMEOUT_S} s"
        time.sleep(0.2)


if __name__ == "__main__":
    main()
