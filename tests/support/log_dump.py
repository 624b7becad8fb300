"""What DumpLogSegments prints of segments, as values."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from odradek.controller.tied_process import tied_command
from tests.support.java_program import RUN_TIMEOUT_S, java_command, run_java
from tests.support.recorded_segments import StoredBatch

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")

# Its names for what StoredBatch names otherwise; every other line or field is of no interest.
FIELDS = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "offset": "last_offset",  # an old message is named by its only, or its wrapper's last, offset
    "count": "count",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "position": "position",
    "size": "size",
    "magic": "magic",
    "compresscodec": "codec",
    "crc": "crc",
}


class Dump(NamedTuple):
    """What the tool printed, and what it complained of, line by line."""

    printed: list[str]
    complaints: list[str]


def dumped(jars: Path, files: Iterable[Path], options: Iterable[str]) -> Dump:
    """Any files of a partition; an exception that ends the tool is a complaint."""
    names = ",".join(map(str, files))
    ended = subprocess.run(
        tied_command(java_command(jars, "kafka.tools.DumpLogSegments", *options, "--files", names)),
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    complaints = ended.stderr.splitlines()
    return Dump(
        ended.stdout.splitlines(),
        [line for line in complaints if not line.startswith(("SLF4J", "log4j"))],
    )


def dumped_batches(jars: Path, segments: Sequence[Path]) -> dict[Path, tuple[StoredBatch, ...]]:
    """What is in each of these segments; fails on a checksum that does not hold."""
    names = ",".join(str(path) for path in segments)
    lines = run_java(jars, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names)
    found: dict[Path, list[dict[str, Any]]] = {}
    for line in lines:
        if line.startswith("Dumping "):
            batches = found[Path(line.removeprefix("Dumping "))] = []
        elif line.startswith("| "):
            batches[-1].update(_marker(line))
        elif " magic: " in line:
            assert line.endswith("isvalid: true"), line
            batches.append(dict(_fields(line)))
    return {
        path: tuple(StoredBatch(**fields) for fields in batches) for path, batches in found.items()
    }


def _fields(line: str) -> Iterator[tuple[str, Any]]:
    for name, text in re.findall(r"(\w+): (\S+)", line):
        if name in TIMESTAMP_TYPES:
            yield "timestamp_type", name
            yield "timestamp", int(text)
        elif name in FIELDS:
            yield FIELDS[name], _value(text)


def _marker(line: str) -> dict[str, Any]:
    found = re.search(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", line)
    if found is None:
        return {}
    return {"marker": found[1], "coordinator_epoch": int(found[2])}


def _value(text: str) -> int | bool | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text.lower()
