"""Measures the cost of queries on a log directory with and without Spark, against plain code.

    python benchmarks/spark.py [--megabytes 1000] [--rounds 3] [--quick] [--only PART ...]

    decoder     segment files decoded in one process, beside a straightforward decoder: scan.py
    questions   five queries with the Spark source, beside ``binaryFiles`` with that decoder, in one
                Spark session with two cores; and with the scanner alone in this process, in
                wall-clock time
    scan        ``odradek scan`` to Parquet, beside Spark with two cores, from start to end
    range       how many bytes are read for a hundredth of the time range

CPU time is that of all processes: the JVM, Python, and short-lived processes.  The contenders
alternate, the median of the rounds counts, and all results must be equal.  The queries first run
several times with the source, until the JVM has compiled its code; the plain code is pure Python.
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
from process_tree import become_subreaper, cpu_seconds
from spark_data import DAY_MS, FIRST_TIMESTAMP, LogData

MEGABYTES, ROUNDS = 1000, 3
QUICK_MEGABYTES, QUICK_ROUNDS = 100, 1
PARTS = ("decoder", "questions", "scan", "range")
COLUMNS = "offset,timestamp,key,value"
RANGE_GOAL = 0.03
WARM_UPS = 2
EXPORT_SCRIPT = Path(__file__).parent / "spark_export.py"


def main() -> None:
    arguments = _arguments()
    quick = arguments.quick
    megabytes = arguments.megabytes or (QUICK_MEGABYTES if quick else MEGABYTES)
    rounds = arguments.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    parts = arguments.only or PARTS
    become_subreaper()
    print(f"{os.cpu_count()} processors, {_load_average()}")
    if "decoder" in parts:
        decoder.compare_all(
            decoder.QUICK_MEGABYTES if quick else decoder.MEGABYTES,
            1 if quick else decoder.ROUNDS,
        )
    with tempfile.TemporaryDirectory() as folder:
        data = spark_data.write_logs(Path(folder) / "logs", megabytes)
        print(f"{data.records:,} records in {data.size_bytes:,} bytes")
        if "range" in parts:
            compare_range(data)
        if "scan" in parts:
            compare_scan(data, Path(folder), rounds)
        if "questions" in parts:
            compare_queries(data, rounds)
    print(_load_average())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, one round")
    parser.add_argument("--only", action="append", choices=PARTS)
    return parser.parse_args()


def _load_average() -> str:
    return "load average " + " ".join(f"{load:.1f}" for load in os.getloadavg())


def compare_queries(data: LogData, rounds: int) -> None:
    from spark_queries import QUERIES, QueryContext
    from spark_session import create_two_core_session

    session = create_two_core_session()
    context = QueryContext(session, data)
    for query in [*QUERIES.values()] * WARM_UPS:
        query.odradek(context)
    timings: dict[tuple[str, str], list[Elapsed]] = {}
    for _ in range(rounds):
        for name, query in QUERIES.items():
            results = []
            for contender in ("straightforward", "odradek", "scanner_only"):
                run_query: Callable[[QueryContext], Any] = getattr(query, contender)
                result, seconds = _time_work(partial(run_query, context))
                results.append(result)
                timings.setdefault((name, contender), []).append(seconds)
                print(f"    {name}, {contender}: {seconds}", file=sys.stderr, flush=True)
            assert results[0] == results[1] == results[2], (name, results)
    session.stop()
    for name, query in QUERIES.items():
        plain, ours, scanner_only = (
            _median(timings[name, contender])
            for contender in ("straightforward", "odradek", "scanner_only")
        )
        print(
            f"{name:22} straightforward {plain.cpu_s:6.1f} s   odradek {ours.cpu_s:5.1f} s"
            f"{plain.cpu_s / ours.cpu_s:7.1f} x   goal {query.goal}"
        )
        print(
            f"{'':22} wall clock: Spark {ours.clock_s:5.1f} s, scanner alone "
            f"{scanner_only.clock_s:5.1f} s{ours.clock_s / scanner_only.clock_s:7.1f} x   goal 1"
        )


class Elapsed(NamedTuple):
    clock_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.clock_s:.1f} s, CPU time {self.cpu_s:.1f} s"


def _time_work(work: Callable[[], Any]) -> tuple[Any, Elapsed]:
    started, started_cpu = perf_counter(), cpu_seconds()
    result = work()
    return result, Elapsed(perf_counter() - started, cpu_seconds() - started_cpu)


def _median(elapsed_rounds: list[Elapsed]) -> Elapsed:
    return Elapsed(*(median(each) for each in zip(*elapsed_rounds, strict=True)))


def compare_scan(data: LogData, folder: Path, rounds: int) -> None:
    """Compare the export of all records to Parquet: one process against Spark with two cores."""
    scan = [sys.executable, "-m", "odradek.broker.cli.main", "scan", str(data.directory)]
    scan += ["--columns", COLUMNS, "--output", "parquet", "--to"]
    commands = {
        "odradek scan": [*scan, str(folder / "scan.parquet")],
        "Spark": [sys.executable, str(EXPORT_SCRIPT), str(data.directory), COLUMNS],
    }
    commands["Spark"].append(str(folder / "spark.parquet"))
    timings: dict[str, list[Elapsed]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            _, seconds = _time_work(partial(subprocess.run, command, check=True))
            timings[name].append(seconds)
    assert summary(folder / "scan.parquet") == summary(folder / "spark.parquet")
    for name, rounds_taken in timings.items():
        print(f"{name:22} to Parquet: {_median(rounds_taken)}")


def summary(path: Path) -> tuple[Any, ...]:
    """Return totals of a Parquet file or directory, which do not depend on the record order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    totals: tuple[Any, ...] = (0, 0, 0, 0, 0)
    for rows in ds.dataset(path).to_batches():
        times = pc.sum(rows["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()))
        lengths = (pc.sum(pc.binary_length(rows[name])) for name in ("key", "value"))
        sums = [times, pc.sum(rows["offset"]), *lengths]
        added = (rows.num_rows, *(each.as_py() or 0 for each in sums))
        totals = tuple(map(sum, zip(totals, added, strict=True)))
    return totals


def compare_range(data: LogData) -> None:
    """Measure how many bytes are read for a hundredth of the time range."""
    from odradek.spark_jobs.scan.scanner import scan

    first = FIRST_TIMESTAMP + DAY_MS // 2
    before = _bytes_read()
    count = sum(
        rows.num_rows
        for rows in scan(
            path=str(data.directory),
            columns=COLUMNS,
            startingTimestamp=str(first),
            endingTimestamp=str(first + DAY_MS // 100),
        )
    )
    share = (_bytes_read() - before) / data.size_bytes
    print(
        f"a hundredth of the time range: {count / data.records:.2%} of the records, "
        f"{share:.2%} of the bytes read   goal {RANGE_GOAL:.0%}"
    )


def _bytes_read() -> int:
    """Return the bytes that this process has read from any file, as the kernel counts them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


if __name__ == "__main__":
    main()
