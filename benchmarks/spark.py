"""What do questions to a log directory cost with Spark, and without?  Against plain ways to do it.

    python benchmarks/spark.py [--megabytes 1000] [--rounds 3] [--quick] [--only PART ...]

    decoder     segment files decoded in one process, beside a straightforward decoder: scan.py
    questions   five of them to the source, beside ``binaryFiles`` with that decoder, in one session
                of Spark with two cores; and to the scanner alone, in this process, by the clock
    scan        ``odradek scan`` into Parquet, beside Spark with two cores, from start to end
    range       how many bytes are read for a hundredth of the time

CPU time is that of all processes: the JVM, Python, and those that live for moments.  Contenders
take turns, the median of the rounds counts, and answers must be the same.  The questions are asked
of the source before, until the JVM has compiled what it runs; the plain way is Python's alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import scan as decoder
import spark_data
from process_tree import cpu_seconds, take_in_orphans
from spark_data import DAY_MS, FIRST_TIMESTAMP, Written

MEGABYTES, ROUNDS = 1000, 3
QUICK_MEGABYTES, QUICK_ROUNDS = 100, 1
PARTS = ("decoder", "questions", "scan", "range")
COLUMNS = "offset,timestamp,key,value"
RANGE_GOAL = 0.03
WARM_UPS = 2
EXPORT = Path(__file__).parent / "spark_export.py"


def main() -> None:
    arguments = _arguments()
    quick = arguments.quick
    megabytes = arguments.megabytes or (QUICK_MEGABYTES if quick else MEGABYTES)
    rounds = arguments.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    parts = arguments.only or PARTS
    take_in_orphans()
    print(f"{os.cpu_count()} processors, {_load()}")
    if "decoder" in parts:
        decoder.compare_all(
            decoder.QUICK_MEGABYTES if quick else decoder.MEGABYTES,
            1 if quick else decoder.ROUNDS,
        )
    with tempfile.TemporaryDirectory() as folder:
        written = spark_data.write(Path(folder) / "logs", megabytes)
        print(f"{written.records:,} records in {written.size_bytes:,} bytes")
        if "range" in parts:
            compare_range(written)
        if "scan" in parts:
            compare_scan(written, Path(folder), rounds)
        if "questions" in parts:
            compare_questions(written, rounds)
    print(_load())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, one round")
    parser.add_argument("--only", action="append", choices=PARTS)
    return parser.parse_args()


def _load() -> str:
    return "load average " + " ".join(f"{load:.1f}" for load in os.getloadavg())


def compare_questions(written: Written, rounds: int) -> None:
    from spark_queries import QUESTIONS, Asked
    from spark_session import two_cores

    session = two_cores()
    asked = Asked(session, written)
    for question in [*QUESTIONS.values()] * WARM_UPS:
        question.odradek(asked)
    taken: dict[tuple[str, str], list[Taken]] = {}
    for _ in range(rounds):
        for name, question in QUESTIONS.items():
            answers = []
            for side in ("straightforward", "odradek", "alone"):
                ask: Callable[[Asked], Any] = getattr(question, side)
                answer, seconds = _timed(partial(ask, asked))
                answers.append(answer)
                taken.setdefault((name, side), []).append(seconds)
                print(f"    {name}, {side}: {seconds}", file=sys.stderr, flush=True)
            assert answers[0] == answers[1] == answers[2], (name, answers)
    session.stop()
    for name, question in QUESTIONS.items():
        plain, ours, alone = (
            _median(taken[name, side]) for side in ("straightforward", "odradek", "alone")
        )
        print(
            f"{name:22} straightforward {plain.cpu_s:6.1f} s   odradek {ours.cpu_s:5.1f} s"
            f"{plain.cpu_s / ours.cpu_s:7.1f} x   goal {question.goal}"
        )
        print(
            f"{'':22} by the clock: Spark {ours.clock_s:5.1f} s, the scanner alone "
            f"{alone.clock_s:5.1f} s{ours.clock_s / alone.clock_s:7.1f} x   goal 1"
        )


class Taken(NamedTuple):
    clock_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.clock_s:.1f} s, of CPU time {self.cpu_s:.1f} s"


def _timed(work: Callable[[], Any]) -> tuple[Any, Taken]:
    begun, begun_cpu = perf_counter(), cpu_seconds()
    answer = work()
    return answer, Taken(perf_counter() - begun, cpu_seconds() - begun_cpu)


def _median(rounds: list[Taken]) -> Taken:
    return Taken(*(median(each) for each in zip(*rounds, strict=True)))


def compare_scan(written: Written, folder: Path, rounds: int) -> None:
    """All records into Parquet, by the wall clock, too: one process against two cores."""
    scan = [sys.executable, "-m", "odradek.broker.cli.main", "scan", str(written.directory)]
    scan += ["--columns", COLUMNS, "--output", "parquet", "--to"]
    commands = {
        "odradek scan": [*scan, str(folder / "scan.parquet")],
        "Spark": [sys.executable, str(EXPORT), str(written.directory), COLUMNS],
    }
    commands["Spark"].append(str(folder / "spark.parquet"))
    taken: dict[str, list[Taken]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            _, seconds = _timed(partial(subprocess.run, command, check=True))
            taken[name].append(seconds)
    assert summary(folder / "scan.parquet") == summary(folder / "spark.parquet")
    for name, rounds_taken in taken.items():
        print(f"{name:22} into Parquet: {_median(rounds_taken)}")


def summary(path: Path) -> tuple[Any, ...]:
    """Of a Parquet file, or a folder of them: the same if the records are, in whatever order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    found: tuple[Any, ...] = (0, 0, 0, 0, 0)
    for rows in ds.dataset(path).to_batches():
        times = pc.sum(rows["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()))
        lengths = (pc.sum(pc.binary_length(rows[name])) for name in ("key", "value"))
        sums = [times, pc.sum(rows["offset"]), *lengths]
        added = (rows.num_rows, *(each.as_py() or 0 for each in sums))
        found = tuple(map(sum, zip(found, added, strict=True)))
    return found


def compare_range(written: Written) -> None:
    """One hundredth of the time: how many bytes are read for it?"""
    from odradek.spark_jobs.scan.scanner import scan

    first = FIRST_TIMESTAMP + DAY_MS // 2
    begun = _bytes_read()
    count = sum(
        rows.num_rows
        for rows in scan(
            path=str(written.directory),
            columns=COLUMNS,
            startingTimestamp=str(first),
            endingTimestamp=str(first + DAY_MS // 100),
        )
    )
    share = (_bytes_read() - begun) / written.size_bytes
    print(
        f"a hundredth of the time: {count / written.records:.2%} of the records, "
        f"{share:.2%} of the bytes read   goal {RANGE_GOAL:.0%}"
    )


def _bytes_read() -> int:
    """By this process, from wherever, as the kernel counts them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


if __name__ == "__main__":
    main()
