"""What the dump prints of files, and files to be dumped."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.storage.dump import command
from tests.support.recorded_segments import StoredBatch

TYPE_NAMES = {
    "create_time": "CreateTime",
    "log_append_time": "LogAppendTime",
    None: "NoTimestampType",
}
OF_MAGIC_2 = (
    *("base_offset", "count", "base_sequence", "last_sequence", "producer_id", "producer_epoch"),
    *("partition_leader_epoch", "is_transactional", "is_control"),
)


@dataclass(frozen=True, slots=True)
class Printed:
    exit_code: int
    output: str
    complaints: str


@dataclass(frozen=True, slots=True)
class Dumped:
    exit_code: int
    facts: Sequence[dict[str, Any]]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Without what is the same in all of them."""
        return [
            {name: value for name, value in fact.items() if name not in ("kind", "file")}
            for fact in self.facts
            if fact["kind"] == kind
        ]

    @property
    def damages(self) -> list[tuple[str, int | None, str]]:
        """File name, position or line, and the reason."""
        return [
            (
                Path(fact["file"]).name,
                fact["line"] if fact["position"] is None else fact["position"],
                fact["why"],
            )
            for fact in self.facts
            if fact["kind"] == "damage"
        ]


def printed(*arguments: str | Path) -> Printed:
    output, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(complaints):
        exit_code = command.main([str(argument) for argument in arguments])
    return Printed(exit_code, output.getvalue(), complaints.getvalue())


def dumped(*arguments: str | Path) -> Dumped:
    """The facts, which must agree with the exit code."""
    told = printed("--json", *arguments)
    assert told.complaints == ""
    facts = [json.loads(line) for line in told.output.splitlines()]
    is_damaged = any(fact["kind"] == "damage" for fact in facts)
    assert told.exit_code == (command.EXIT_DAMAGED if is_damaged else command.EXIT_OK)
    return Dumped(told.exit_code, facts)


def segment(directory: Path, base_offset: int, *batches: bytes) -> Path:
    """Write a .log file; its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def dumped_batches(path: Path) -> tuple[StoredBatch, ...]:
    """The batches of a sound .log file, in the terms of recorded_segments."""
    facts = dumped("--records", path)
    assert facts.exit_code == command.EXIT_OK
    markers = {
        record["position"]: {
            "marker": record["control"]["type"].upper(),
            "coordinator_epoch": record["control"]["coordinator_epoch"],
        }
        for record in facts.of_kind("record")
        if "control" in record
    }
    return tuple(
        _stored(batch, markers.get(batch["position"], {})) for batch in facts.of_kind("batch")
    )


def _stored(batch: dict[str, Any], marker: dict[str, Any]) -> StoredBatch:
    return StoredBatch(
        position=batch["position"],
        size=batch["size_bytes"],
        magic=batch["magic"],
        codec=batch["codec"],
        crc=batch["checksum"],
        timestamp_type=TYPE_NAMES[batch["timestamp_type"]],
        timestamp=-1 if batch["max_timestamp"] is None else batch["max_timestamp"],
        last_offset=batch["last_offset"],
        **({name: batch[name] for name in OF_MAGIC_2} if batch["magic"] == 2 else {}),
        **marker,
    )
