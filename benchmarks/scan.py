"""How fast are segment files decoded?  Ratios to a straightforward decoder in plain Python.

    python benchmarks/scan.py [MEGABYTES]

Both read the same files from the page cache, compare every checksum, and give offset, timestamp,
key and value of each record: the one a tuple for each, the other Arrow record batches.  A third
contender is protocol/records, which is tuned.  They take turns, and of each the median of its
rounds counts, in CPU time.  The quickest stands beside it: at 1 KB it is moving bytes that takes
time, and whoever else moves bytes on the machine slows that down.  That all answers are the same
is checked before anything is timed.

The file is as large as what the scanner reads at a time of a segment, which by default has 1 GB.  A
plain decoder has all of it in memory.  Of a file below 32 MB the C library would keep that memory
from round to round, while who reads a segment once has to be given it by the kernel first.

The goals are 10 times for records of 100 bytes and 4.5 times for 1 KB.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

sys.path.insert(0, str(Path(__file__).parent))

from straightforward import Row, straightforward

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.spark_jobs.scan.scanner import scan

MEGABYTES, QUICK_MEGABYTES = 128, 48
ROUNDS = 9
FIRST_TIMESTAMP = 1_700_000_000_000
COLUMNS = "offset,timestamp,key,value"


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records of a file look like, and the least acceptable ratio."""

    name: str
    value_bytes: int
    batch_bytes: int = 16 * 1024
    codec: Codec = Codec.NONE
    goal: float | None = None


SHAPES = [
    Shape("100 B", 90, goal=10),
    Shape("1 KB", 1014, goal=4.5),
    Shape("100 B in batches of 1 MB", 90, batch_bytes=1024 * 1024),
    Shape("100 B, lz4", 90, codec=Codec.LZ4),
]


def main() -> None:
    compare_all(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES)


def compare_all(megabytes: int = MEGABYTES, rounds: int = ROUNDS) -> None:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            _compare(shape, Path(folder), megabytes, rounds)


def _compare(shape: Shape, folder: Path, megabytes: int, rounds: int) -> None:
    path = folder / "records-0" / "00000000000000000000.log"
    path.parent.mkdir()
    count = _write(path, shape, megabytes * 1_000_000)
    _check_answers(path, folder)
    contenders: dict[str, Callable[[], int]] = {
        "straightforward": lambda: sum(1 for _ in straightforward(path.read_bytes())),
        "protocol/records": lambda: sum(1 for _ in _tuned(path.read_bytes())),
        "scanner": lambda: sum(
            rows.num_rows
            for rows in scan(path=str(folder), columns=COLUMNS, isolationLevel="read_uncommitted")
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            # Of this process: others may have the processor meanwhile.
            begun = process_time()
            assert run() == count
            taken[name].append(process_time() - begun)
    for name, seconds in taken.items():
        goal = f"   goal {shape.goal}" if name == "scanner" and shape.goal else ""
        figures = [_figure(seconds, taken["straightforward"], count, of) for of in (median, min)]
        print(f"{shape.name:26} {name:18}{figures[0]}   quickest{figures[1]}{goal}")


def _figure(
    taken: list[float], plain: list[float], count: int, of: Callable[[list[float]], float]
) -> str:
    return f"{of(taken) / count * 1e9:7.0f} ns{of(plain) / of(taken):6.1f} x"


def _write(path: Path, shape: Shape, size_bytes: int) -> int:
    offset = 0
    with path.open("wb") as file:
        while offset * (shape.value_bytes + 20) < size_bytes:
            builder = BatchBuilder(BatchFields(base_offset=offset, codec=shape.codec))
            for _ in range(max(1, shape.batch_bytes // (shape.value_bytes + 20))):
                builder.append(
                    timestamp=FIRST_TIMESTAMP + offset,
                    key=b"%010d" % offset,
                    value=(b"%d " % offset * shape.value_bytes)[: shape.value_bytes],
                )
                offset += 1
            file.write(builder.build())
    return offset


def _check_answers(path: Path, folder: Path) -> None:
    expected = list(straightforward(path.read_bytes()))
    assert expected == list(_tuned(path.read_bytes()))
    found: list[Row] = []
    for rows in scan(path=str(folder), columns=COLUMNS):
        columns = [rows[name].to_pylist() for name in ("offset", "key", "value")]
        times = [time // 1000 for time in rows["timestamp"].cast("int64").to_pylist()]
        found += zip(columns[0], times, columns[1], columns[2], strict=True)
    assert expected == found


def _tuned(log: bytes) -> Iterator[Row]:
    for batch in batches_of_any_magic(log):
        batch.check_crc()
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value


if __name__ == "__main__":
    main()
