"""Measures the codecs as ratios to kio (native decoder) and aiokafka, all in one run.

    python benchmarks/codec.py

A ratio above 1 means that ours is faster.  The peers process the same bytes; aiokafka is measured
at the highest version that it supports, and ours at the same version.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fuzzing
import messages
import records
from aiokafka.protocol import fetch as aiokafka_fetch
from aiokafka.protocol import group as aiokafka_group
from aiokafka.protocol import metadata as aiokafka_metadata
from aiokafka.protocol import produce as aiokafka_produce
from kio.serial import entity_reader, entity_writer
from timing import seconds_per_call

from odradek.protocol import compiler
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.codec import encode, encode_bytes
from odradek.protocol.registry import all_apis
from odradek.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Row:
    """One message, compared with both peers.  A goal is the lowest acceptable ratio."""

    name: str
    message: Message
    kio_module: str
    kio_version: int
    kio_goal: float | None
    aiokafka_class: Any
    aiokafka_goal: float = 2.5


DECODE_ROWS = [
    Row("Fetch request, 10 partitions", messages.fetch_request(),
        "fetch", 12, 0.5, aiokafka_fetch.FetchRequest_v11),
    Row("Produce request, one 16 KB batch", messages.produce_request(),
        "produce", 9, 1.0, aiokafka_produce.ProduceRequest_v8),
    Row("JoinGroup request", messages.join_group_request(),
        "join_group", 9, None, aiokafka_group.JoinGroupRequest_v5),
]  # fmt: skip

ENCODE_ROWS = [
    Row("Metadata response, 1,000 partitions", messages.metadata_response(),
        "metadata", 12, 5.0, aiokafka_metadata.MetadataResponse_v5),
    Row("Fetch response, 10 partitions", messages.fetch_response(),
        "fetch", 12, 5.0, aiokafka_fetch.FetchResponse_v11),
]  # fmt: skip


def main() -> None:
    # Measured first, before anything is compiled.
    _print_compile_time()
    _print_import_time()
    print(f"{'':52} {'ours':>9} {'peer':>10}  ratio   goal")
    for row in DECODE_ROWS:
        _compare_decoding(row)
    for row in ENCODE_ROWS:
        _compare_encoding(row)
    records.main()
    fuzzing.main()


def _compare_decoding(row: Row) -> None:
    cls = type(row.message)
    frame = encode_bytes(row.message, row.kio_version)
    # The broker decodes a request from its receive buffer, and bytes fields are views of it.
    received = memoryview(bytearray(frame))
    ours, theirs = compiler.decoder(cls, row.kio_version), entity_reader(_kio_class(row))
    assert ours(received) == row.message
    _print(
        f"decode {row.name}, kio",
        row.kio_goal,
        ours=lambda: ours(received),
        peer=lambda: theirs(frame, 0),
    )
    if row.message.__class__ is ProduceRequest:
        # kio rejects a writable buffer, so the receive buffer must be copied for it.
        _print(
            "  the same, kio from the receive buffer",
            None,
            ours=lambda: ours(received),
            peer=lambda: theirs(bytes(received), 0),
        )
    peer = row.aiokafka_class
    old_frame = encode_bytes(row.message, peer.API_VERSION)
    old_received, old_decoder = (
        memoryview(bytearray(old_frame)),
        compiler.decoder(cls, peer.API_VERSION),
    )
    _print(
        f"decode {row.name}, aiokafka v{peer.API_VERSION}",
        row.aiokafka_goal,
        ours=lambda: old_decoder(old_received),
        peer=lambda: peer.decode(io.BytesIO(old_frame)),
    )


def _compare_encoding(row: Row) -> None:
    frame = encode_bytes(row.message, row.kio_version)
    theirs, _ = entity_reader(_kio_class(row))(frame, 0)
    writer = entity_writer(_kio_class(row))

    def kio_encode() -> bytes:
        stream = io.BytesIO()
        writer(stream, theirs)
        return stream.getvalue()

    assert kio_encode() == frame
    _print(
        f"encode {row.name}, kio",
        row.kio_goal,
        ours=lambda: encode(row.message, row.kio_version),
        peer=kio_encode,
    )
    version = row.aiokafka_class.API_VERSION
    old_frame = encode_bytes(row.message, version)
    struct = row.aiokafka_class.decode(io.BytesIO(old_frame))
    assert struct.encode() == old_frame
    _print(
        f"encode {row.name}, aiokafka v{version}",
        row.aiokafka_goal,
        ours=lambda: encode(row.message, version),
        peer=struct.encode,
    )


def _kio_class(row: Row) -> Any:
    module = importlib.import_module(f"kio.schema.{row.kio_module}.v{row.kio_version}")
    return getattr(module, type(row.message).__name__)


def _print(
    name: str, goal: float | None, *, ours: Callable[[], object], peer: Callable[[], object]
) -> None:
    times = seconds_per_call({"ours": ours, "peer": peer})
    ratio = times["peer"] / times["ours"]
    goal_text = "" if goal is None else f"{goal:6.1f}" + ("" if ratio >= goal else "  MISSED")
    print(
        f"{name:52} {times['ours'] * 1e6:6.2f} us {times['peer'] * 1e6:7.2f} us "
        f"{ratio:6.2f} {goal_text}"
    )


def _print_compile_time() -> None:
    compiled, start = 0, time.perf_counter()
    for api in all_apis():
        for message in (api.request, api.response):
            for version in range(api.versions.low, api.versions.high + 1):
                compiler.decoder(message, version)
                compiler.encoder(message, version)
                compiled += 1
    elapsed_ms = (time.perf_counter() - start) * 1e3
    print(
        f"compiling encoder and decoder: {elapsed_ms / compiled:.2f} ms per message and version"
        f" ({compiled} measured)"
    )


def _print_import_time() -> None:
    program = (
        "import time; start = time.perf_counter(); {}; "
        "print(round((time.perf_counter() - start) * 1e3))"
    )
    for label, statement in [
        ("odradek.protocol.codec and header", "import odradek.protocol.header"),
        (
            "all APIs",
            "from odradek.protocol.registry import all_apis; all_apis()",
        ),
    ]:
        milliseconds = min(
            int(subprocess.check_output([sys.executable, "-c", program.format(statement)]))
            for _ in range(5)
        )
        print(f"importing {label}: {milliseconds} ms (goal: under 150 ms)")


if __name__ == "__main__":
    main()
