"""Measures decoding of segment files as ratios to a straightforward decoder in plain Python.

    python benchmarks/scan.py [MEGABYTES]

Both read the same files from the page cache, check every CRC, and return offset, timestamp, key and
value of each record: the plain decoder as tuples, the scanner as Arrow record batches.  A third
contender is protocol/records, which is optimized.  The contenders alternate, and the median CPU
time of the rounds counts.  The fastest round is printed beside it: with 1 KB records most of the
time goes into moving bytes, which other processes that move bytes slow down.  Before the timing,
all contenders are checked to return the same records.

The file is as large as the part of a segment that the scanner reads at a time; a segment has 1 GB
by default.  The plain decoder holds the whole file in memory.  For a file below 32 MB the C library
would keep that memory from round to round, whereas a program that reads a segment once must first
get the memory from the kernel.

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

from straightforward_decoder import Row, decode_segment

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.spark_jobs.scan.scanner import scan

MEGABYTES, QUICK_MEGABYTES = 128, 48
ROUNDS = 9
FIRST_TIMESTAMP = 1_700_000_000_000
COLUMNS = "offset,timestamp,key,value"


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The records of a file, and the lowest acceptable ratio."""

    name: str
    value_bytes: int
    batch_bytes: int = 16 * 1024
    codec: Codec = Codec.NONE
    goal: float | None = None


RECORD_SHAPES = [
    RecordShape("100 B", 90, goal=10),
    RecordShape("1 KB", 1014, goal=4.5),
    RecordShape("100 B in batches of 1 MB", 90, batch_bytes=1024 * 1024),
    RecordShape("100 B, lz4", 90, codec=Codec.LZ4),
]


def main() -> None:
    compare_all(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES)


def compare_all(megabytes: int = MEGABYTES, rounds: int = ROUNDS) -> None:
    for shape in RECORD_SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            _compare(shape, Path(folder), megabytes, rounds)


def _compare(shape: RecordShape, folder: Path, megabytes: int, rounds: int) -> None:
    path = folder / "records-0" / "00000000000000000000.log"
    path.parent.mkdir()
    count = _write(path, shape, megabytes * 1_000_000)
    _check_same_records(path, folder)
    contenders: dict[str, Callable[[], int]] = {
        "straightforward": lambda: sum(1 for _ in decode_segment(path.read_bytes())),
        "protocol/records": lambda: sum(1 for _ in _decode_with_protocol(path.read_bytes())),
        "scanner": lambda: sum(
            rows.num_rows
            for rows in scan(path=str(folder), columns=COLUMNS, isolationLevel="read_uncommitted")
        ),
    }
    timings: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            # CPU time of this process, since other processes may use the processor meanwhile.
            started = process_time()
            assert run() == count
            timings[name].append(process_time() - started)
    for name, seconds in timings.items():
        goal = f"   goal {shape.goal}" if name == "scanner" and shape.goal else ""
        texts = [
            _format_timing(seconds, timings["straightforward"], count, statistic)
            for statistic in (median, min)
        ]
        print(f"{shape.name:26} {name:18}{texts[0]}   fastest{texts[1]}{goal}")


def _format_timing(
    seconds: list[float],
    baseline_seconds: list[float],
    count: int,
    statistic: Callable[[list[float]], float],
) -> str:
    return (
        f"{statistic(seconds) / count * 1e9:7.0f} "
        f"ns{statistic(baseline_seconds) / statistic(seconds):6.1f} x"
    )


def _write(path: Path, shape: RecordShape, size_bytes: int) -> int:
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


def _check_same_records(path: Path, folder: Path) -> None:
    expected = list(decode_segment(path.read_bytes()))
    assert expected == list(_decode_with_protocol(path.read_bytes()))
    decoded: list[Row] = []
    for rows in scan(path=str(folder), columns=COLUMNS):
        columns = [rows[name].to_pylist() for name in ("offset", "key", "value")]
        times = [time // 1000 for time in rows["timestamp"].cast("int64").to_pylist()]
        decoded += zip(columns[0], times, columns[1], columns[2], strict=True)
    assert expected == decoded


def _decode_with_protocol(log: bytes) -> Iterator[Row]:
    for batch in batches_of_any_magic(log):
        batch.check_crc()
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value


if __name__ == "__main__":
    main()
