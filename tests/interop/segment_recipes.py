"""What is sent, by which client and to what kind of topic, for each recorded segment.

The records hold what encodings like to confuse: null and empty keys, values and header values, an
empty and a repeated header key, a timestamp older than the one before it, and a value that
compresses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.support.java_client import Round, SentRecord

EVERY_CODEC = ("none", "gzip", "snappy", "lz4", "zstd")
OLD_CODECS = ("none", "gzip", "snappy", "lz4")

LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
FORMAT_OF_MAGIC = {0: "0.9.0", 1: "0.10.0"}

NOON = 1_600_000_000_000

FIRST_BATCH = (
    SentRecord(NOON, None, None),
    SentRecord(NOON + 7, b"", b"", (("", b""),)),
    SentRecord(NOON - 1_000, b"earlier", bytes(range(0, 256, 5))),
    SentRecord(
        NOON + 86_400_000,
        b"key",
        b"value",
        (("again", None), ("again", b""), ("again", b"one"), ("\u00fc\U0001f9f5", b"\x00\xff")),
    ),
    SentRecord(NOON + 8, None, b"spool of thread " * 20),
)
SECOND_BATCH = (SentRecord(NOON + 9, b"tombstone", None),)
THIRD_BATCH = tuple(
    SentRecord(NOON + 10 + number, b"%d" % number, b"x" * (50 * number), (("n", b"%d" % number),))
    for number in range(4)
)
BATCHES = (FIRST_BATCH, SECOND_BATCH, THIRD_BATCH)

# The old formats have no headers.
OLD_BATCHES = tuple(tuple(replace(record, headers=()) for record in batch) for batch in BATCHES)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One segment: ``client`` sends ``rounds`` to a topic made for it."""

    name: str
    client: str  # java, librdkafka or aiokafka
    producer: Mapping[str, str]
    rounds: Sequence[Round] = (Round(BATCHES),)
    topic: Mapping[str, str] = field(default_factory=dict)


def recipes() -> list[Recipe]:
    """Segments of the present format, magic 2."""
    return [
        *(
            Recipe(f"{client}-{codec}", client, _plain(codec))
            for client in ("java", "librdkafka")
            for codec in EVERY_CODEC
        ),
        *(_idempotent(client) for client in ("java", "librdkafka")),
        *(_transactional(client) for client in ("java", "librdkafka")),
        *(
            Recipe(
                f"java-log-append-time-{codec}",
                "java",
                _plain(codec),
                topic=LOG_APPEND_TIME,
            )
            for codec in ("none", "gzip")
        ),
    ]


def old_format_recipes() -> list[Recipe]:
    """Segments of magic 0 and 1, for a broker that still writes them.

    The Java client sends magic 2 and the broker converts.  What aiokafka builds, the broker
    keeps only if it is compressed and of magic 1; else the outcome is the same as Java's.
    """
    return [
        *(_old("java", magic, codec) for magic in FORMAT_OF_MAGIC for codec in OLD_CODECS),
        *(_old("aiokafka", 1, codec) for codec in OLD_CODECS if codec != "none"),
        *(
            replace(
                _old("java", 1, codec, LOG_APPEND_TIME),
                name=f"java-magic-1-log-append-time-{codec}",
            )
            for codec in ("none", "gzip")
        ),
    ]


def _old(client: str, magic: int, codec: str, topic: Mapping[str, str] = {}) -> Recipe:
    return Recipe(
        f"{client}-magic-{magic}-{codec}",
        client,
        _plain(codec),
        rounds=(Round(OLD_BATCHES),),
        topic={"message.format.version": FORMAT_OF_MAGIC[magic], **topic},
    )


def _plain(codec: str) -> dict[str, str]:
    return {"compression.type": codec, "acks": "1", "enable.idempotence": "false"}


def _idempotent(client: str) -> Recipe:
    return Recipe(f"{client}-idempotent", client, {"enable.idempotence": "true", "acks": "all"})


def _transactional(client: str) -> Recipe:
    name = f"{client}-transactional"
    rounds = (
        Round((FIRST_BATCH, SECOND_BATCH), end="commit"),
        Round((THIRD_BATCH,), end="abort"),
        Round((SECOND_BATCH,), end="commit"),
    )
    return Recipe(name, client, {"transactional.id": name}, rounds)
