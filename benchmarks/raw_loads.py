"""Loads by raw sockets: produce, consume from the start, and long polls that return nothing.

They run in a separate process, so garbage collection of this process does not disturb them.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_targets import Target
from client_drivers import Latency, LoadResult, run_in_processes
from measurement import MB, Load, LoadOptions, Measurement, measure_load, temporary_topic
from raw_driver import (
    RawLoad,
    RawResult,
    RequestFailed,
    build_batch,
    fetch_error_code_position,
    fetch_frame,
    produce_error_code_position,
    produce_frame,
    run_raw_load,
)

FILL_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class LoadShape:
    """The sizes and the concurrency of a raw load."""

    record_bytes: int = 100
    batch_bytes: int = 0  # one record
    partitions: int = 1
    connections: int = 1
    in_flight: int = 5


def raw_produce(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, shape.partitions) as name:
            return measure_load(target, lambda: run_produce(target, name, shape, options.seconds))

    return load


def raw_consume(shape: LoadShape, *, max_bytes: int = MB) -> Load:
    """Consume from the start to the end, repeatedly."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, shape.partitions) as name:
            filled = fill_topic(target, name, shape, options.filled_mb)
            return measure_load(
                target, lambda: _run_fetch(target, name, shape, options.seconds, filled, max_bytes)
            )

    return load


def idle_long_polls(shape: LoadShape, *, max_wait_ms: int = 100) -> Load:
    """Measure the cost of fetches from an empty partition that expire and are repeated."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name:
            frame = fetch_frame(name, 0, 0, max_bytes=MB, max_wait_ms=max_wait_ms)
            return measure_load(
                target, lambda: _run_long_polls(target, name, shape, frame, options.seconds)
            )

    return load


def run_produce(target: Target, name: str, shape: LoadShape, seconds: float) -> LoadResult:
    count = build_batch(shape.record_bytes, batch_bytes=shape.batch_bytes).count
    result = run_raw_produce(target, name, shape, seconds)
    records = result.requests * count
    return to_load_result(shape, result, records)


def run_raw_produce(target: Target, name: str, shape: LoadShape, seconds: float) -> RawResult:
    batch = build_batch(shape.record_bytes, batch_bytes=shape.batch_bytes)
    frames = tuple(produce_frame(name, each, batch) for each in range(shape.partitions))
    return run_raw_load_in_process(
        target, frames, produce_error_code_position(name), shape, seconds
    )


@dataclass(frozen=True, slots=True)
class FilledTopic:
    records_per_batch: int
    batch_bytes: int
    batches: int


def fill_topic(target: Target, name: str, shape: LoadShape, megabytes: int) -> FilledTopic:
    """Fill every partition with the same amount of data."""
    batch = build_batch(shape.record_bytes, batch_bytes=shape.batch_bytes)
    batches = max(1, megabytes * MB // len(batch.records) // shape.partitions)
    frames = tuple(produce_frame(name, each, batch) for each in range(shape.partitions))
    send_requests(
        target.bootstrap, frames, produce_error_code_position(name), batches * shape.partitions
    )
    return FilledTopic(batch.count, len(batch.records), batches)


def send_requests(
    address: str, frames: tuple[bytes, ...], error_code_position: int, requests: int
) -> None:
    """Send this many requests in this process, as fast as one connection allows."""
    result = run_raw_load(
        RawLoad(
            address=address,
            frames=frames,
            error_code_position=error_code_position,
            in_flight=5,
            seconds=FILL_TIMEOUT_S,
            requests=requests,
        )
    )
    if result.requests < requests:
        raise RequestFailed(
            f"{result.requests} of {requests} requests completed in {FILL_TIMEOUT_S} s"
        )


def _run_fetch(
    target: Target, name: str, shape: LoadShape, seconds: float, filled: FilledTopic, max_bytes: int
) -> LoadResult:
    batches_per_fetch = max(1, max_bytes // filled.batch_bytes)
    frames = tuple(
        fetch_frame(name, partition, batch * filled.records_per_batch, max_bytes=max_bytes)
        for batch in range(0, filled.batches, batches_per_fetch)
        for partition in range(shape.partitions)
    )
    result = run_raw_load_in_process(
        target, frames, fetch_error_code_position(name), shape, seconds
    )
    records = result.received_bytes // filled.batch_bytes * filled.records_per_batch
    return to_load_result(shape, result, records)


def _run_long_polls(
    target: Target, name: str, shape: LoadShape, frame: bytes, seconds: float
) -> LoadResult:
    result = run_raw_load_in_process(
        target, (frame,), fetch_error_code_position(name), shape, seconds
    )
    return to_load_result(shape, result, records=0)


def run_raw_load_in_process(
    target: Target,
    frames: tuple[bytes, ...],
    error_code_position: int,
    shape: LoadShape,
    seconds: float,
) -> RawResult:
    load = RawLoad(
        address=target.bootstrap,
        frames=frames,
        error_code_position=error_code_position,
        connections=shape.connections,
        in_flight=shape.in_flight,
        seconds=seconds,
    )
    return run_in_processes(run_raw_load, [load])[0]


def to_load_result(shape: LoadShape, result: RawResult, records: int) -> LoadResult:
    return LoadResult(
        f"raw sockets, {shape.connections} x {shape.in_flight}",
        records,
        records * shape.record_bytes,
        result.seconds,
        result.requests,
        Latency.from_samples(result.latencies_ms),
    )
