"""Does a producer snapshot say what the batches before its offset say?

A broker believes a snapshot whose checksum is right: what is wrong in it makes it take a retry for
new, or hide records behind a transaction that has long ended, or show those of one that is open.

    last batch      of a producer, where it is still in the log, has that producer, epoch, sequence
    transactions    open at the snapshot's offset are those that the batches leave open

Producers may be missing, since idle ones are forgotten; transactions that are open may not.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.spark_jobs.audit.batch_rows import row_holding
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.audit.transaction_checks import KnownLog
from odradek.storage.producers.append import AppendedBatch, ProducerState
from odradek.storage.producers.snapshot import ENTRY, HEADER


def snapshot_problems(
    states: Mapping[int, ProducerState], offset: int, log: KnownLog
) -> Iterator[Problem]:
    """``states`` are in the order of the file."""
    open_now = log.told.open_at.get(offset, {})
    for slot, (producer_id, state) in enumerate(states.items()):
        position = HEADER.size + slot * ENTRY.size
        last = state.last_batch
        why = None if last is None else _wrong_batch(producer_id, state.epoch, last, offset, log)
        if why is not None and last is not None:
            yield Problem(position, last.last_offset, f"producer {producer_id}: {why}")
        first = state.transaction_first_offset
        why = _wrong_transaction(producer_id, first, open_now.get(producer_id), offset, log)
        if why is not None:
            yield Problem(position, first, f"producer {producer_id}: {why}")
    for producer_id, first in open_now.items():
        if producer_id not in states and first >= log.start_offset:
            what = f"producer {producer_id} is not in it, whose transaction is open since {first}"
            yield Problem(None, first, what)


def _wrong_batch(
    producer_id: int, epoch: int, last: AppendedBatch, offset: int, log: KnownLog
) -> str | None:
    if last.last_offset >= offset:
        return f"its last offset is {last.last_offset}, beyond the snapshot's"
    row = None if log.lost.has(last.last_offset) else row_holding(log.rows, last.last_offset)
    if row is None:  # deleted, or compacted
        return None
    delta = int(row["last_offset"]) - int(row["base_offset"])
    sequence = (int(row["base_sequence"]) + delta) & SEQUENCE_MAX
    in_log = (int(row["producer_id"]), int(row["producer_epoch"]), sequence)
    if in_log != (producer_id, epoch, last.last_sequence):
        return (
            f"epoch {epoch} and sequence {last.last_sequence} at offset {last.last_offset}, where "
            f"producer {in_log[0]} has epoch {in_log[1]} and sequence {in_log[2]}"
        )
    return None


def _wrong_transaction(
    producer_id: int, first: int | None, in_log: int | None, offset: int, log: KnownLog
) -> str | None:
    if first is None:
        if in_log is None or in_log < log.start_offset:
            return None
        return f"no transaction, but one is open since {in_log}"
    if first >= offset:
        return f"a transaction since {first}, beyond the snapshot's offset"
    ended = log.ended_between(producer_id, first, offset)
    if ended is not None:
        return f"a transaction since {first}, which ended at {ended}"
    if in_log is None or first == in_log:
        return None
    # Records may be lost or deleted with which it began.
    first_row = int(log.rows["base_offset"][0])
    if first < in_log and (first < first_row or log.lost.touches(first, in_log)):
        return None
    return f"a transaction since {first}, which began at {in_log}"
