"""What is written to each of the recorded log directories, and how the broker then ends.

Segments are tiny, so that a few batches fill several.  Most recipes restart the broker half way:
what comes before lies below the recovery points, what comes after is of another leader epoch and is
what a broker that was killed has to recover.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Producer

from tests.interop.data_directory_scene import DAY_MS, END_OF_LOG, TIMEOUT_S, Batch, Scene, send

LONG_AGO_MS = 1_600_000_000_000

KEPT = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}
ROLLED = {
    **KEPT,
    "segment.bytes": "1200",
    "index.interval.bytes": "150",
    "segment.index.bytes": "240",
}
OLD_FORMATS = {0: "0.9.0", 1: "0.10.0"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

CLEANED = (
    "cleaned",
    "cleaned-twice",
    "cleaned-transactions",
    "cleaned-transactions-twice",
)
#: Topics whose segments become one, and what is left of that if it is interrupted.
GROUPED = ("discarded", "swapped", "half-swapped")

STOPPED, KILLED, DAMAGED = "stopped", "killed", "damaged"
EVERY_END = (STOPPED, KILLED, DAMAGED)


@dataclass(frozen=True, slots=True)
class Recipe:
    """``damaged`` is what was killed, and then damaged as data_directory_damage says."""

    write: Callable[[Scene], None]
    ends: tuple[str, ...] = EVERY_END
    broker: Mapping[str, str] = field(default_factory=dict)
    has_old_formats: bool = False


def codecs(scene: Scene) -> None:
    """Every codec, and every reason to roll a segment."""
    topics = {
        "full-index": {"segment.index.bytes": "24", "index.interval.bytes": "0"},
        "aged": {"segment.ms": "300"},
        "append-time": {"message.timestamp.type": "LogAppendTime"},
        "preallocated": {"preallocate": "true"},
        "one-segment": {"segment.bytes": "1000000"},
        "recompressed": {"compression.type": "zstd"},
    }
    scene.create("codecs", ROLLED, partitions=len(CODECS))
    scene.create("flushed", ROLLED)
    scene.create("empty", ROLLED)
    for topic, configs in topics.items():
        scene.create(topic, {**ROLLED, **configs})
    producers = [
        scene.producer(compression_type=codec, enable_idempotence="false") for codec in CODECS
    ]
    for batch in scene.batches(4):
        send(producers[0], "flushed", batch)
    for half in (0, 1):
        for batch in scene.batches(9, start=half * 9):
            for partition, producer in enumerate(producers):
                send(producer, "codecs", batch, partition=partition)
            for topic in topics:
                send(producers[0], topic, batch)
        if half == 0:
            scene.restart()


def transactions(scene: Scene) -> None:
    """Committed, aborted, fenced and open ones, across segments and a restart."""
    scene.create("mixed", ROLLED, partitions=2)
    scene.create("open", ROLLED)
    scene.create("idempotent", ROLLED)
    scene.create("idle", ROLLED)
    for producer in (scene.producer(enable_idempotence="true") for _ in range(2)):
        for batch in scene.batches(7):
            send(producer, "idempotent", batch)
        for batch in scene.batches(2, since_ms=LONG_AGO_MS):
            send(producer, "idle", batch)
    names = ("committer", "aborter", "across", "fenced", "last")
    transactional = {name: scene.producer(transactional_id=name) for name in names}
    _mix(scene, transactional)
    scene.restart()
    _end_mix(scene, transactional)
    for batch in scene.batches(3, start=20):
        send(transactional["last"], "open", batch)


def _mix(scene: Scene, transactional: Mapping[str, Producer]) -> None:
    written = list(scene.batches(12))
    for name in ("across", "fenced"):
        transactional[name].begin_transaction()
        _send_to_both(transactional[name], written[0])
    for number in range(2):
        for name, abort in (("committer", False), ("aborter", True)):
            producer = transactional[name]
            producer.begin_transaction()
            for batch in written[number * 4 : number * 4 + 4]:
                _send_to_both(producer, batch)
            _end(producer, abort=abort)
        _send_to_both(transactional["across"], written[number + 8])
    transactional["last"].begin_transaction()
    _send_to_both(transactional["last"], written[10])


def _end_mix(scene: Scene, transactional: Mapping[str, Producer]) -> None:
    written = list(scene.batches(6, start=12))
    _send_to_both(transactional["across"], written[0])
    scene.producer(transactional_id="fenced")  # ends the transaction of the other
    _end(transactional["across"], abort=True)
    for batch in written[1:5]:
        transactional["aborter"].begin_transaction()
        _send_to_both(transactional["aborter"], batch)
        _end(transactional["aborter"], abort=True)
    transactional["committer"].begin_transaction()
    _send_to_both(transactional["committer"], written[5])
    _end(transactional["committer"], abort=False)


def _send_to_both(producer: Producer, batch: Batch) -> None:
    for partition in (0, 1):
        send(producer, "mixed", batch, partition=partition)


def _end(producer: Producer, *, abort: bool) -> None:
    (producer.abort_transaction if abort else producer.commit_transaction)(TIMEOUT_S)


def compaction(scene: Scene) -> None:
    """The same records not cleaned, cleaned by and by, and cleaned at one go into one segment."""
    compacted = {**ROLLED, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    not_yet = {**compacted, "min.compaction.lag.ms": str(2**63 - 1)}
    at_once = {"delete.retention.ms": "0"}  # tombstones and markers go in the second pass
    scene.create("not-cleaned", not_yet)
    for topic in GROUPED:
        scene.create(topic, not_yet)
    for topic in ("cleaned", "cleaned-transactions"):
        scene.create(topic, compacted)
        scene.create(f"{topic}-twice", {**compacted, **at_once})
    plain = scene.producer(enable_idempotence="false", compression_type="gzip")
    transactional = scene.producer(transactional_id="compacted")
    for half in (0, 1):
        for number, batch in enumerate(scene.batches(12, start=half * 12)):
            keyed = [record for record in batch if record.key is not None]
            for topic in ("not-cleaned", "cleaned", "cleaned-twice"):
                send(plain, topic, keyed)
            transactional.begin_transaction()
            for topic in ("cleaned-transactions", "cleaned-transactions-twice", *GROUPED):
                send(transactional, topic, keyed)
            _end(transactional, abort=number % 3 == 1)
        scene.wait_until(lambda: _is_cleaned(scene, CLEANED))
    for topic in GROUPED:
        scene.alter(topic, {"min.compaction.lag.ms": "0", "segment.bytes": "20000"})
    scene.wait_until(lambda: _is_cleaned(scene, GROUPED))
    transactional.begin_transaction()
    send(transactional, "cleaned-transactions", keyed)


def _is_cleaned(scene: Scene, topics: Iterable[str]) -> bool:
    checkpoint = scene.broker.data_directory / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return all(f"{topic} 0 {scene.base_offsets(topic)[-1]}" in lines for topic in topics)


def deletion(scene: Scene) -> None:
    """A start that retention or DeleteRecords has moved."""
    plain = scene.producer(enable_idempotence="true")
    trimmed = ("trimmed", "trimmed-twice", "trimmed-late", "trimmed-whole")
    for topic in trimmed:
        scene.create(topic, ROLLED)
        _send_all(plain, topic, scene.batches(18))
    _retain(scene, plain)
    _trim_transactions(scene)
    for topic in trimmed[:2]:
        scene.delete_records(topic, before=19)
    scene.wait_until(lambda: _is_retained(scene))
    scene.restart()
    for topic in trimmed[1:3]:
        _send_all(plain, topic, scene.batches(3, start=18))
    scene.delete_records("trimmed-late", before=20)
    scene.delete_records("trimmed-twice", before=31)
    scene.delete_records("trimmed-whole", before=END_OF_LOG)
    scene.wait_until(lambda: scene.base_offsets("trimmed-twice")[0] > 19)


def _retain(scene: Scene, plain: Producer) -> None:
    scene.create("kept-by-size", {**ROLLED, "retention.bytes": "2000"})
    _send_all(plain, "kept-by-size", scene.batches(18))
    for topic in ("kept-by-time", "emptied"):
        scene.create(topic, {**ROLLED, "retention.ms": str(DAY_MS)})
        _send_all(plain, topic, scene.batches(9, since_ms=scene.now_ms - 2 * DAY_MS))
    _send_all(plain, "kept-by-time", scene.batches(3))


def _send_all(producer: Producer, topic: str, batches: Iterable[Batch]) -> None:
    for batch in batches:
        send(producer, topic, batch)


def _trim_transactions(scene: Scene) -> None:
    topic = "trimmed-transactions"
    scene.create(topic, ROLLED)
    aborter, last = (scene.producer(transactional_id=name) for name in ("aborter", "last"))
    for number, batch in enumerate(scene.batches(12)):
        if number == 5:
            last.begin_transaction()
        if number >= 5:
            send(last, topic, batch)
        aborter.begin_transaction()
        send(aborter, topic, batch)
        _end(aborter, abort=number % 2 == 0)
    scene.delete_records(topic, before=20)


def _is_retained(scene: Scene) -> bool:
    is_emptied = len(scene.base_offsets("emptied")) == 1 and scene.base_offsets("emptied")[0] > 0
    moved = ("trimmed", "trimmed-twice", "trimmed-transactions", "kept-by-size", "kept-by-time")
    return is_emptied and all(scene.base_offsets(topic)[0] > 0 for topic in moved)


def old_formats(scene: Scene) -> None:
    """Magic 0, magic 1, and a topic that has seen all formats."""
    codecs = CODECS[:-1]
    for magic, version in OLD_FORMATS.items():
        scene.create(
            f"magic-{magic}", {**ROLLED, "message.format.version": version}, partitions=len(codecs)
        )
    scene.create("upgraded", {**ROLLED, "message.format.version": OLD_FORMATS[0]})
    producers = [
        scene.producer(compression_type=codec, enable_idempotence="false") for codec in codecs
    ]
    for half, version in enumerate((OLD_FORMATS[1], "2.8", "")):
        for batch in scene.batches(6, start=half * 6):
            without_headers = [
                type(record)(record.timestamp, record.key, record.value) for record in batch
            ]
            send(producers[0], "upgraded", without_headers)
            for partition, producer in enumerate(producers):
                for magic in OLD_FORMATS:
                    send(producer, f"magic-{magic}", without_headers, partition=partition)
        if version:
            scene.alter("upgraded", {"message.format.version": version})
            scene.restart()


QUICK_RETENTION = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}

RECIPES = {
    "codecs": Recipe(codecs),
    "transactions": Recipe(transactions),
    "compaction": Recipe(compaction, broker={"log.cleaner.backoff.ms": "200"}),
    "deletion": Recipe(deletion, ends=(STOPPED, KILLED), broker=QUICK_RETENTION),
    "old-formats": Recipe(old_formats, has_old_formats=True),
}
