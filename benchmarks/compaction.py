"""How fast is a log compacted?  Megabytes of log a second, and the ratio to Apache Kafka's cleaner.

    python benchmarks/compaction.py [--megabytes 200] [--directory DIR] [--no-kafka]

The log has records of 1 KB in batches of 16 KB, and five records for every key.  Half of each value
is noise, so that zstd has something to do and something to save.  Both compact the same files;
each must leave as many records.  Kafka's figure is what its cleaner reports, in a broker that has
just been started, with the compiler's usual settings.  Where Kafka cannot run, it is left out.
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
from odradek.storage.cleaner.compaction import clean, discard
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import CleaningPlan, cleaning_task
from odradek.storage.log import Log
from odradek.storage.log_loader import Findings, LogPlace, open_log
from odradek.storage.settings import TopicSettings
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.kafka_jars import KafkaUnavailable

MIB = 1024 * 1024
CODECS = (Codec.NONE, Codec.ZSTD)
RECORD_BYTES = 1024
RECORDS_IN_BATCH = 16
RECORDS_OF_KEY = 5
SEGMENT_BYTES = 64 * MIB
ROUNDS = 3
TIMEOUT_S = 120
#: The harness runs brokers with the quick compiler; this comes after its options.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=4 -Xmx1g"
PROCESSED = r"cleaned log {topic}-0 .*?\(([\d,.]+) MB/sec\).*?End size: [\d,.]+ MB \(([\d,]+) mess"


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
    parser.add_argument("--directory", help="where to write; a temporary folder by default")
    parser.add_argument("--no-kafka", action="store_true", help="without the peer")
    return parser.parse_args()


def compare(root: Path, *, megabytes: int, with_kafka: bool) -> None:
    """Fill a log for each codec below ``root``, compact them, and print the figures."""
    logs = {codec: _filled(root / f"{codec.name.lower()}-0", codec, megabytes) for codec in CODECS}
    theirs: dict[Codec, tuple[float, int]] = {}
    if with_kafka:
        try:
            theirs = _kafkas_figures(root / "kafka", logs)
        except KafkaUnavailable as why:
            print(f"without Apache Kafka: {why}")
    for codec, log in logs.items():
        speed, plan = _our_speed(log)
        text = f"compaction, {codec.name.lower():5} {speed:6.1f} MB/s"
        if codec in theirs:
            their_speed, their_count = theirs[codec]
            text += f", Apache Kafka {their_speed:6.1f} MB/s, ratio {speed / their_speed:.2f}"
            assert plan.statistics.records_written == their_count, (plan, their_count)
        print(text)
        log.abandon()


def _filled(directory: Path, codec: Codec, megabytes: int) -> Log:
    directory.mkdir()
    place = LogPlace(
        directory=directory,
        partition=TopicPartition(codec.name.lower(), 0),
        settings=TopicSettings(segment_bytes=SEGMENT_BYTES, cleanup_policy=("compact",)),
        producer_settings=SimpleNamespace(
            producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
        ),
    )
    log = open_log(place, Findings())
    now_ms = int(time.time() * 1000)
    for batch in _batches(codec, count=megabytes * MIB // RECORD_BYTES, now_ms=now_ms):
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    log.advance_high_watermark(log.end_offset)
    log.roll(now_ms=now_ms)
    log.flush(now_ms=now_ms)
    return log


def _batches(codec: Codec, *, count: int, now_ms: int) -> Iterator[bytearray]:
    chance = random.Random(1)
    keys = count // RECORDS_OF_KEY
    for first in range(0, count, RECORDS_IN_BATCH):
        builder = BatchBuilder(BatchFields(codec=codec))
        for number in range(first, min(first + RECORDS_IN_BATCH, count)):
            value = chance.randbytes(RECORD_BYTES // 2) + b"%08d" % number * (RECORD_BYTES // 16)
            builder.append(timestamp=now_ms, key=b"key-%d" % chance.randrange(keys), value=value)
        yield builder.build()


def _our_speed(log: Log) -> tuple[float, CleaningPlan]:
    """Of the quickest round."""
    end_offset = log.segments.active.base_offset
    best = float("inf")
    for _ in range(ROUNDS):
        task = cleaning_task(
            log,
            CleanerSettings(),
            first_dirty_offset=0,
            end_offset=end_offset,
            now_ms=int(time.time() * 1000),
        )
        start = time.perf_counter()
        plan = clean(task)
        best = min(best, time.perf_counter() - start)
        assert plan.end_offset == end_offset, "the map is too small for this log"
        discard(log.directory)
    return log.size_bytes / MIB / best, plan


def _kafkas_figures(directory: Path, logs: dict[Codec, Log]) -> dict[Codec, tuple[float, int]]:
    """Megabytes a second and records left, as the broker's cleaner reports them."""
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
            _put_in(broker, log)
        with broker:
            return {codec: _kafkas_figure(broker, log) for codec, log in logs.items()}


def _create_topic(broker: ApacheKafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(TIMEOUT_S)


def _put_in(broker: ApacheKafka, log: Log) -> None:
    """Our segments instead of those that the broker, which is stopped, had made."""
    directory = broker.data_directory / log.directory.name
    for pattern in ("*.log", "*.index", "*.timeindex", "*.snapshot"):
        for path in directory.glob(pattern):
            path.unlink()
    for segment in log.segments:
        segment.seal()
        for path in log.directory.glob(f"{segment.base_offset:020}.*"):
            shutil.copy(path, directory)


def _kafkas_figure(broker: ApacheKafka, log: Log) -> tuple[float, int]:
    topic = log.partition.topic
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    _wait_until(lambda: topic in admin.list_topics(timeout=TIMEOUT_S).topics, f"no topic {topic}")
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    report = re.compile(PROCESSED.format(topic=topic), re.DOTALL)
    _wait_until(lambda: report.search(broker.log.read_text()), f"no compaction of {topic}")
    found = report.search(broker.log.read_text())
    assert found is not None
    speed, count = (text.replace(",", "") for text in found.groups())
    return float(speed), int(count)


def _wait_until(is_so: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, f"{otherwise} within {TIMEOUT_S} s"
        time.sleep(0.2)


if __name__ == "__main__":
    main()
