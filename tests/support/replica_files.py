"""What stopped brokers have on their disks, each replica compared with the others.

Owner: the thread of the test.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from struct import Struct

from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from odradek.storage.paths import LogFileType

SEGMENT = LogFileType.LOG.value
#: Base offset of a batch, and the size of what follows.
BATCH_START = Struct(">qi")


def check_replicas(
    brokers: Sequence[Sequence[Path]], assigned: Mapping[str, Collection[int]]
) -> None:
    """By the disks of each broker, and by the brokers that must have noted how far all had it.

    Up to the high watermark that each has noted all have the same.  Others may have noted none, and
    are not asked then: they were killed too soon, or down when it was moved away or deleted.
    """
    found = [partitions_in(disks) for disks in brokers]
    for name in sorted(set().union(*found, assigned)):
        held = {at: each[name] for at, each in enumerate(found) if name in each}
        noted = {at: _high_watermark(each) for at, each in held.items()}
        lacking = [at for at in assigned.get(name, ()) if noted.get(at) is None]
        assert not lacking, f"{name}: brokers {lacking} have not noted what all had"
        compared = {held[at]: end for at, end in noted.items() if end is not None}
        start, end = max(map(_first_offset, compared), default=0), min(compared.values(), default=0)
        different = {batches_in(each, start, end) for each in compared}
        assert len(different) <= 1, f"{name} differs between {start} and {end}"


def partitions_in(disks: Sequence[Path]) -> dict[str, Path]:
    """Where the replicas of a broker are, by their names."""
    found = {each.parent for disk in disks for each in disk.glob(f"*-*/*{SEGMENT}")}
    named = {each.name: each for each in found}
    assert len(named) == len(found), f"on two disks at once: {sorted(found)}"
    return named


def batches_in(directory: Path, start: int = 0, end: int | None = None) -> bytes:
    """All of them, or those that begin between two offsets."""
    segments = sorted(directory.glob(f"*{SEGMENT}"))
    whole = b"".join(each.read_bytes() for each in segments)
    if end is None:
        return whole
    found, position = b"", 0
    while position < len(whole):
        base_offset, size = BATCH_START.unpack_from(whole, position)
        following = position + BATCH_START.size + size
        if start <= base_offset < end:
            found += whole[position:following]
        position = following
    return found


def _first_offset(partition: Path) -> int:
    """Retention is each replica's own."""
    return min(int(each.stem) for each in partition.glob(f"*{SEGMENT}"))


def _high_watermark(partition: Path) -> int | None:
    """None if it was never noted."""
    topic, _, number = partition.name.rpartition("-")
    checkpoint = partition.parent / HIGH_WATERMARKS.name
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    found = dict(line.rsplit(" ", 1) for line in lines[2:])
    noted = found.get(f"{topic} {number}")
    return None if noted is None else int(noted)
