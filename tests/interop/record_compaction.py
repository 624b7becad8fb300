"""Makes the logs below tests/vectors/compaction anew, with a broker that compacts them.

    .venv/bin/python -m tests.interop.record_compaction

A Kafka 3.9 broker is kept from compacting while it is written to; the files are copied; then it may
compact, and when its checkpoint tells that it has, the files are copied again.  The second pass
comes after the delete horizons of the first.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from tests.interop.data_directory_scene import TIMEOUT_S, Batch, Scene, send
from tests.support import recorded_compaction
from tests.support.apache_kafka import ZooKeeper, zookeeper_broker
from tests.support.recorded_compaction import RecordedPass

FOREVER_MS = 2**63 - 1
RETENTION_MS = 1500
MARKERS_WRITTEN_WITHIN_S = 2  # after a transaction has ended, as its producer sees it
PASSES = (1, 2)
SEGMENT_BYTES = {"plain": 1200, "idempotent": 4000, "transactions": 100_000}
TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(RETENTION_MS),
    "retention.ms": "-1",
    "segment.ms": str(FOREVER_MS),
    "index.interval.bytes": "150",
}
NOT_NOW = {"min.compaction.lag.ms": str(FOREVER_MS), "segment.bytes": "1200"}
NOW = {"min.compaction.lag.ms": "0"}

Send = Callable[[Sequence[Batch]], None]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, ZooKeeper(Path(scratch)) as zookeeper:
        properties = {"log.cleaner.backoff.ms": "200"}
        with zookeeper_broker(
            Path(scratch), zookeeper=zookeeper.address, properties=properties
        ) as broker:
            scene = Scene(broker, zookeeper=zookeeper.address)
            for topic, sender in senders(scene).items():
                record(scene, topic, sender, Path(scratch) / "recorded" / topic)


def senders(scene: Scene) -> dict[str, Send]:
    plain = scene.producer(enable_idempotence="false", compression_type="gzip")
    idempotent = [scene.producer(enable_idempotence="true") for _ in range(2)]
    transactional = [scene.producer(transactional_id=f"t{number}") for number in range(3)]
    return {
        "plain": lambda batches: send_each([plain], "plain", batches),
        "idempotent": lambda batches: send_each(idempotent, "idempotent", batches),
        "transactions": lambda batches: send_transactions(transactional, batches),
    }


def record(scene: Scene, topic: str, send_batches: Send, directory: Path) -> None:
    scene.create(topic, {**TOPIC, "min.compaction.lag.ms": str(FOREVER_MS)})
    passes: list[RecordedPass] = []
    for number in PASSES:
        scene.alter(topic, NOT_NOW)
        time.sleep(2 * RETENTION_MS / 1000)  # for the settings, and for the horizons to pass
        send_batches(keyed_batches(scene, number))
        time.sleep(MARKERS_WRITTEN_WITHIN_S)
        copy(scene, topic, directory / f"before-{number}")
        end_offset = scene.base_offsets(topic)[-1]
        scene.alter(topic, {**NOW, "segment.bytes": str(SEGMENT_BYTES[topic])})
        scene.wait_until(partial(is_cleaned, scene, topic, end_offset))
        passes.append(
            RecordedPass(
                number=number,
                first_dirty_offset=passes[-1].end_offset if passes else 0,
                end_offset=end_offset,
                segment_bytes=SEGMENT_BYTES[topic],
                delete_retention_ms=RETENTION_MS,
                seen_ms=int(time.time() * 1000),
            )
        )
        copy(scene, topic, directory / passes[-1].after)
    recorded_compaction.save(directory, topic, passes)


def keyed_batches(scene: Scene, number: int) -> list[Batch]:
    batches = scene.batches(16, start=number * 16)
    keyed = [[record for record in batch if record.key is not None] for batch in batches]
    return [batch for batch in keyed if batch]


def send_each(producers: Sequence[Producer], topic: str, batches: Sequence[Batch]) -> None:
    """The producers take turns, of which the last is silent in the second half."""
    for number, batch in enumerate(batches):
        active = producers if number < len(batches) // 2 else producers[:1]
        send(active[number % len(active)], topic, batch)


def send_transactions(producers: Sequence[Producer], batches: Sequence[Batch]) -> None:
    """They overlap: each reaches into the next, and every third is aborted."""
    ends: list[Callable[[], None]] = []
    for number, batch in enumerate(batches):
        producer = producers[number % len(producers)]
        producer.begin_transaction()
        send(producer, "transactions", batch)
        ends.append(
            lambda producer=producer, number=number: (
                producer.abort_transaction if number % 3 == 1 else producer.commit_transaction
            )(TIMEOUT_S)
        )
        if len(ends) > 1:
            ends.pop(0)()
    ends.pop()()


def is_cleaned(scene: Scene, topic: str, end_offset: int) -> bool:
    checkpoint = scene.broker.data_directory / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return f"{topic} 0 {end_offset}" in lines


def copy(scene: Scene, topic: str, target: Path) -> None:
    target.mkdir(parents=True)
    source = scene.broker.data_directory / f"{topic}-0"
    for ending in ("log", "txnindex"):
        for path in source.glob(f"*.{ending}"):
            shutil.copy(path, target)


if __name__ == "__main__":
    main()
