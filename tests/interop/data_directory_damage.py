"""What a directory that a killed broker left may suffer besides, before a broker starts on it.

A killed broker leaves all that it has written, so torn writes and interrupted swaps are made here.
"""

import os
from collections.abc import Callable
from pathlib import Path

INTERNAL = "__"

# How far compaction had come, by topic: it had only written the new segment, or begun to replace.
INTERRUPTED = {"discarded": ".cleaned", "swapped": ".swap", "half-swapped": ".swap"}
HALF_REPLACED = "half-swapped"
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex")


def damage(data_directory: Path) -> None:
    """One kind for each partition in turn; internal topics stay as they are."""
    for number, directory in enumerate(_damaged(data_directory)):
        topic = directory.name.rpartition("-")[0]
        if topic in INTERRUPTED:
            _interrupt_compaction(directory, INTERRUPTED[topic], is_half=topic == HALF_REPLACED)
        else:
            KINDS[number % len(KINDS)](directory)


def damage_by_partition(data_directory: Path) -> dict[str, str]:
    """What has been done to each: the name of a kind, or of a topic that was being compacted."""
    kinds = {}
    for number, directory in enumerate(_damaged(data_directory)):
        topic = directory.name.rpartition("-")[0]
        kind = KINDS[number % len(KINDS)].__name__
        kinds[directory.name] = topic if topic in INTERRUPTED else kind
    return kinds


def _damaged(data_directory: Path) -> list[Path]:
    partitions = sorted(path.parent for path in data_directory.glob("*-*/partition.metadata"))
    return [
        path for path in partitions if not path.name.startswith(INTERNAL) and _has_batches(path)
    ]


def _interrupt_compaction(directory: Path, ending: str, *, is_half: bool) -> None:
    """The segments that were replaced are in use again, beside the one that replaces them."""
    replaced = [path.name.split(".")[0] for path in sorted(directory.glob("*.log.deleted"))]
    assert len(replaced) > 2, directory
    for suffix in SEGMENT_FILES:
        cleaned = directory / f"{replaced[0]}{suffix}"
        if cleaned.exists():
            cleaned.rename(directory / f"{cleaned.name}{ending}")
    for base in replaced[2:] if is_half else replaced:
        for path in directory.glob(f"{base}.*.deleted"):
            path.rename(path.with_suffix(""))


def _cut_last_byte(directory: Path) -> None:
    log = _last(directory)
    os.truncate(log, _size(log) - 1)


def _cut_into_header(directory: Path) -> None:
    """Few enough bytes are left of the last batch that its length is not among them."""
    log = _last(directory)
    os.truncate(log, _last_batch_position(log) + 5)


def _append_zeros(directory: Path) -> None:
    _append(_last(directory), bytes(300))


def _append_noise(directory: Path) -> None:
    _append(_last(directory), bytes(range(7, 207)))


def _flip_bit(directory: Path) -> None:
    """In the last batch, where only its checksum tells."""
    log = _last(directory)
    content = bytearray(log.read_bytes())
    content[_size(log) - 1] ^= 0x10
    log.write_bytes(content)


def _lose_indexes(directory: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        for path in directory.glob(f"*{suffix}"):
            path.unlink()


def _zero_indexes(directory: Path) -> None:
    """Those of the last segment: below the recovery point Kafka would believe them."""
    log = _last(directory)
    for suffix in (".index", ".timeindex", ".snapshot"):
        path = log.with_suffix(suffix)
        if path.exists():
            path.write_bytes(bytes(path.stat().st_size))


def _lose_snapshots(directory: Path) -> None:
    for path in directory.glob("*.snapshot"):
        path.unlink()


KINDS: tuple[Callable[[Path], None], ...] = (
    _cut_last_byte,
    _append_zeros,
    _flip_bit,
    _lose_indexes,
    _append_noise,
    _zero_indexes,
    _cut_into_header,
    _lose_snapshots,
)


def _has_batches(directory: Path) -> bool:
    return any(_size(path) for path in directory.glob("*.log"))


def _last(directory: Path) -> Path:
    """The last segment with anything in it."""
    return max(path for path in directory.glob("*.log") if _size(path))


def _size(log: Path) -> int:
    """Without the zeros that a preallocated segment ends with."""
    return _last_batch_position(log, at_end=True)


def _last_batch_position(log: Path, *, at_end: bool = False) -> int:
    content = log.read_bytes()
    position = previous = 0
    while length := int.from_bytes(content[position + 8 : position + 12]):
        position, previous = position + 12 + length, position
    return position if at_end else previous


def _append(log: Path, garbage: bytes) -> None:
    with log.open("r+b") as file:
        file.seek(_size(log))
        file.write(garbage)
