"""Loads of raw sockets: produce, consume from the start, and long polls that find nothing.

They run in a process of their own, so that no garbage of this one disturbs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_clients import Latency, Served, in_processes
from broker_figures import MB, Load, Measured, Tools, costed, topic
from broker_raw import (
    RawLoad,
    RawOutcome,
    Refused,
    batch_of,
    drive,
    fetch_frame,
    fetch_verdict,
    produce_frame,
    produce_verdict,
)
from broker_sides import Side

FILL_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a raw load."""

    record_bytes: int = 100
    batch_bytes: int = 0  # one record
    partitions: int = 1
    connections: int = 1
    in_flight: int = 5


def raw_produce(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, shape.partitions) as name:
            return costed(side, lambda: produced(side, name, shape, tools.seconds))

    return load


def raw_consume(shape: Shape, *, max_bytes: int = MB) -> Load:
    """From the start to the end, and again."""

    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, shape.partitions) as name:
            filled = fill(side, name, shape, tools.filled_mb)
            return costed(
                side, lambda: _fetched(side, name, shape, tools.seconds, filled, max_bytes)
            )

    return load


def idle_long_polls(shape: Shape, *, max_wait_ms: int = 100) -> Load:
    """Of an empty partition: what it costs to find nothing, and to be asked again."""

    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name:
            frame = fetch_frame(name, 0, 0, max_bytes=MB, max_wait_ms=max_wait_ms)
            return costed(side, lambda: _polled(side, name, shape, frame, tools.seconds))

    return load


def produced(side: Side, name: str, shape: Shape, seconds: float) -> Served:
    count = batch_of(shape.record_bytes, batch_bytes=shape.batch_bytes).count
    outcome = raw_produced(side, name, shape, seconds)
    records = outcome.requests * count
    return served(shape, outcome, records)


def raw_produced(side: Side, name: str, shape: Shape, seconds: float) -> RawOutcome:
    batch = batch_of(shape.record_bytes, batch_bytes=shape.batch_bytes)
    frames = tuple(produce_frame(name, each, batch) for each in range(shape.partitions))
    return driven(side, frames, produce_verdict(name), shape, seconds)


@dataclass(frozen=True, slots=True)
class Filled:
    records_in_batch: int
    batch_bytes: int
    batches: int


def fill(side: Side, name: str, shape: Shape, megabytes: int) -> Filled:
    """Every partition has as much."""
    batch = batch_of(shape.record_bytes, batch_bytes=shape.batch_bytes)
    batches = max(1, megabytes * MB // len(batch.records) // shape.partitions)
    frames = tuple(produce_frame(name, each, batch) for each in range(shape.partitions))
    drive_all(side.bootstrap, frames, produce_verdict(name), batches * shape.partitions)
    return Filled(batch.count, len(batch.records), batches)


def drive_all(
    address: str, frames: tuple[bytes, ...], verdict_position: int, requests: int
) -> None:
    """So many, in this process, as fast as one connection can."""
    outcome = drive(
        RawLoad(
            address=address,
            frames=frames,
            verdict_position=verdict_position,
            in_flight=5,
            seconds=FILL_TIMEOUT_S,
            requests=requests,
        )
    )
    if outcome.requests < requests:
        raise Refused(f"{outcome.requests} of {requests} requests in {FILL_TIMEOUT_S} s")


def _fetched(
    side: Side, name: str, shape: Shape, seconds: float, filled: Filled, max_bytes: int
) -> Served:
    batches_at_once = max(1, max_bytes // filled.batch_bytes)
    frames = tuple(
        fetch_frame(name, partition, batch * filled.records_in_batch, max_bytes=max_bytes)
        for batch in range(0, filled.batches, batches_at_once)
        for partition in range(shape.partitions)
    )
    outcome = driven(side, frames, fetch_verdict(name), shape, seconds)
    records = outcome.received_bytes // filled.batch_bytes * filled.records_in_batch
    return served(shape, outcome, records)


def _polled(side: Side, name: str, shape: Shape, frame: bytes, seconds: float) -> Served:
    outcome = driven(side, (frame,), fetch_verdict(name), shape, seconds)
    return served(shape, outcome, records=0)


def driven(
    side: Side, frames: tuple[bytes, ...], verdict_position: int, shape: Shape, seconds: float
) -> RawOutcome:
    load = RawLoad(
        address=side.bootstrap,
        frames=frames,
        verdict_position=verdict_position,
        connections=shape.connections,
        in_flight=shape.in_flight,
        seconds=seconds,
    )
    return in_processes(drive, [load])[0]


def served(shape: Shape, outcome: RawOutcome, records: int) -> Served:
    return Served(
        f"raw sockets, {shape.connections} x {shape.in_flight}",
        records,
        records * shape.record_bytes,
        outcome.seconds,
        outcome.requests,
        Latency.of(outcome.latencies_ms),
    )
