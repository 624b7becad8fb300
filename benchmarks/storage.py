"""Measures the storage engine as ratios to plain file calls, all in one run.

    python benchmarks/storage.py [--megabytes 1024] [--directory DIR] [--no-kafka]

    append     batches through the whole log, against os.write of the same bytes
    lookup     from offset to file region at random offsets, in one segment and in a thousand
    recovery   of a log that was never flushed, against reading it and computing its CRC-32C
    reopening  of 1,000 clean partitions: time, and resident memory per partition
    compaction of uncompressed and zstd data, against Kafka's cleaner: see compaction.py

The directory should be on the file system that matters; the data is deleted at the end.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))

import compaction

from odradek.protocol.records.builder import BatchBuilder
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.types import TopicPartition
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log, recover_log
from odradek.storage.settings import TopicSettings
from odradek.storage.unified_log import UnifiedLog

PRODUCER_SETTINGS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)
NOW_MS = 1_700_000_000_000
ROUNDS = 25
PARTITIONS = 1000


def main() -> None:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="odradek-storage-", dir=arguments.directory))
    try:
        for size_bytes, goal in ((16 * 1024, 0.6), (1024 * 1024, 0.9)):
            _compare_append(root, size_bytes, goal)
        _compare_lookup(root, arguments.megabytes)
        _compare_recovery(root, arguments.megabytes)
        _measure_reopening(root)
        compaction.compare(root, megabytes=200, with_kafka=not arguments.no_kafka)
    finally:
        shutil.rmtree(root)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the large logs")
    parser.add_argument("--directory", help="data directory; default: a temporary directory")
    parser.add_argument("--no-kafka", action="store_true", help="do not compare with Apache Kafka")
    return parser.parse_args()


def _log_location(directory: Path, *, segment_bytes: int = 1024 * 1024 * 1024) -> LoadLogParams:
    directory.mkdir(parents=True, exist_ok=True)
    return LoadLogParams(
        directory=directory,
        partition=TopicPartition(directory.name.rsplit("-", 1)[0], 0),
        settings=TopicSettings(segment_bytes=segment_bytes, max_message_bytes=2 * 1024 * 1024),
        producer_settings=PRODUCER_SETTINGS,
        now_ms=NOW_MS,
    )


def _batch(size_bytes: int) -> bytes:
    builder = BatchBuilder()
    while builder.size_bytes < size_bytes - 1100:
        builder.append(timestamp=NOW_MS, key=None, value=bytes(1000))
    builder.append(timestamp=NOW_MS, key=None, value=bytes(size_bytes - builder.size_bytes - 12))
    return bytes(builder.build())


class Appender:
    """Appends the same batch repeatedly, from one receive buffer."""

    def __init__(self, log: UnifiedLog, batch: bytes) -> None:
        self._log, self._head = log, batch[:16]
        self._received = memoryview(bytearray(batch))

    def __call__(self) -> None:
        # Restore the fields that the broker overwrites, as a new batch from the socket would.
        self._received[:16] = self._head
        self._log.append_as_leader(self._received, leader_epoch=0, now_ms=NOW_MS)


class Writer:
    """Writes the same bytes to a plain file, from another receive buffer."""

    def __init__(self, descriptor: int, batch: bytes) -> None:
        self._descriptor, self._head = descriptor, batch[:16]
        self._received = memoryview(bytearray(batch))

    def __call__(self) -> None:
        self._received[:16] = self._head
        os.write(self._descriptor, self._received)


def _compare_append(root: Path, size_bytes: int, goal: float) -> None:
    batch = _batch(size_bytes)
    log = open_log(_log_location(root / f"append{size_bytes}-0"), LogLoadReport())
    descriptor = os.open(root / "plain", os.O_WRONLY | os.O_CREAT)
    append, write = Appender(log, batch), Writer(descriptor, batch)
    count = max(20, 4 * 1024 * 1024 // size_bytes)
    best = {"log": float("inf"), "write": float("inf")}
    for _ in range(ROUNDS):
        for name, call in (("log", append), ("write", write)):
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count)
    os.close(descriptor)
    log.close_handlers()
    _print(
        f"append, batches of {size_bytes // 1024} KB",
        f"{best['log'] * 1e6:.1f} us, os.write {best['write'] * 1e6:.1f} us",
        best["write"] / best["log"],
        goal,
    )


def _fill(log: UnifiedLog, megabytes: int) -> None:
    append = Appender(log, _batch(16 * 1024))
    for _ in range(megabytes * 64):
        append()
    log.update_high_watermark(log.log_end_offset)


def _compare_lookup(root: Path, megabytes: int) -> None:
    times = {}
    for segments in (1, 1000):
        segment_bytes = megabytes * 1024 * 1024 // segments
        params = _log_location(
            root / f"lookup{segments}-0", segment_bytes=max(segment_bytes, 20_000)
        )
        log = open_log(params, LogLoadReport())
        _fill(log, megabytes)
        log.close(now_ms=NOW_MS)
        log = open_log(params, LogLoadReport())
        offsets = random.Random(1).choices(range(log.log_end_offset), k=2000)
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for offset in offsets:
                log.read(offset, max_bytes=1 << 20, max_offset=log.log_end_offset)
            best = min(best, (time.perf_counter() - start) / len(offsets))
        times[segments] = best
        print(f"lookup in {len(log.segments)} segments: {best * 1e6:.1f} us (goal: under 10 us)")
        log.close_handlers()
        shutil.rmtree(params.directory)
    _print("lookup, one segment to a thousand", "", times[1] / times[1000], 0.5)


def _compare_recovery(root: Path, megabytes: int) -> None:
    params = _log_location(root / "recovery-0")
    log = open_log(params, LogLoadReport())
    _fill(log, megabytes)
    path = next(params.directory.glob("*.log"))
    log.close_handlers()
    best = {"recover": float("inf"), "read": float("inf")}
    for _ in range(3):
        start = time.perf_counter()
        _read_with_checksum(path)
        best["read"] = min(best["read"], time.perf_counter() - start)
        start = time.perf_counter()
        report = recover_log(params)
        best["recover"] = min(best["recover"], time.perf_counter() - start)
        assert report.removed_bytes == 0, report
    _print(
        f"recovery of {megabytes} MB",
        f"{best['recover']:.2f} s, reading and CRC {best['read']:.2f} s",
        best["read"] / best["recover"],
        0.5,
    )
    shutil.rmtree(params.directory)


def _read_with_checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1024 * 1024):
            checksum = crc32c(chunk, checksum)
    return checksum


def _measure_reopening(root: Path) -> None:
    """Measure in a separate process, whose memory is that of the partitions alone."""
    directory = root / "many"
    batch = _batch(16 * 1024)
    for number in range(PARTITIONS):
        log = open_log(_log_location(directory / f"topic{number}-0"), LogLoadReport())
        Appender(log, batch)()
        log.close(now_ms=NOW_MS)
    output = subprocess.check_output(
        [sys.executable, __file__, "--reopen", str(directory)], text=True
    )
    print(output, end="")


def reopen(directory: Path) -> None:
    params_list = [_log_location(each) for each in sorted(directory.iterdir())]
    open_log(params_list[0], LogLoadReport()).close_handlers()
    gc.collect()
    before = _resident_bytes()
    start = time.perf_counter()
    logs = [open_log(params, LogLoadReport()) for params in params_list]
    elapsed = time.perf_counter() - start
    resident_bytes = (_resident_bytes() - before) / len(logs)
    print(
        f"reopening {len(logs)} clean partitions: {elapsed:.2f} s (goal: under 1 s), "
        f"{resident_bytes / 1024:.1f} KB resident each (goal: under 10 KB)"
    )


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _print(name: str, figures: str, ratio: float, goal: float) -> None:
    verdict = "" if ratio >= goal else "  MISSED"
    print(f"{name}: {figures}  ratio {ratio:.2f} (goal: at least {goal}){verdict}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--reopen"]:
        reopen(Path(sys.argv[2]))
    else:
        main()
