"""Check of a producer snapshot against the batches before its offset.

A broker trusts a snapshot with a right checksum.  With a wrong entry it takes a retry for a new
batch, hides records after a transaction that has ended, or shows records of an open transaction.

    last batch      the batch in the log at its offset has this producer, epoch and sequence
    transactions    the open ones are those that are open in the log at the snapshot's offset

Producers may be missing, since idle ones expire.  Producers with an open transaction may not.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.spark_jobs.audit.batch_rows import find_row
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.audit.transaction_checks import ReferenceLog
from odradek.storage.producer_state.producer_state_entry import BatchMetadata, ProducerStateEntry
from odradek.storage.producer_state.snapshot import ENTRY, HEADER


def check_producer_snapshot(
    states: Mapping[int, ProducerStateEntry], snapshot_offset: int, reference: ReferenceLog
) -> Iterator[Problem]:
    """``states`` are in the order of the file."""
    log_open = reference.history.open_transactions_at.get(snapshot_offset, {})
    for slot, (producer_id, state) in enumerate(states.items()):
        position = HEADER.size + slot * ENTRY.size
        last = state.last_batch
        reason = (
            None
            if last is None
            else _check_last_batch(producer_id, state.epoch, last, snapshot_offset, reference)
        )
        if reason is not None and last is not None:
            yield Problem(position, last.last_offset, f"producer {producer_id}: {reason}")
        first = state.current_txn_first_offset
        reason = _check_open_transaction(
            producer_id, first, log_open.get(producer_id), snapshot_offset, reference
        )
        if reason is not None:
            yield Problem(position, first, f"producer {producer_id}: {reason}")
    for producer_id, first in log_open.items():
        if producer_id not in states and first >= reference.log_start_offset:
            what = f"producer {producer_id} is missing, with an open transaction from {first}"
            yield Problem(None, first, what)


def _check_last_batch(
    producer_id: int,
    epoch: int,
    last_batch: BatchMetadata,
    snapshot_offset: int,
    reference: ReferenceLog,
) -> str | None:
    if last_batch.last_offset >= snapshot_offset:
        return f"last offset {last_batch.last_offset} is not below the snapshot's offset"
    row = (
        None
        if reference.lost_offsets.contains(last_batch.last_offset)
        else find_row(reference.rows, last_batch.last_offset)
    )
    if row is None:  # deleted or compacted
        return None
    delta = int(row["last_offset"]) - int(row["base_offset"])
    sequence = (int(row["base_sequence"]) + delta) & SEQUENCE_MAX
    in_log = (int(row["producer_id"]), int(row["producer_epoch"]), sequence)
    if in_log != (producer_id, epoch, last_batch.last_sequence):
        return (
            f"epoch {epoch} and sequence {last_batch.last_sequence} at offset "
            f"{last_batch.last_offset}, but the log has "
            f"producer {in_log[0]} with epoch {in_log[1]} and sequence {in_log[2]} there"
        )
    return None


def _check_open_transaction(
    producer_id: int,
    first_offset: int | None,
    log_first_offset: int | None,
    snapshot_offset: int,
    reference: ReferenceLog,
) -> str | None:
    if first_offset is None:
        if log_first_offset is None or log_first_offset < reference.log_start_offset:
            return None
        return f"no transaction, but the log has an open one from {log_first_offset}"
    if first_offset >= snapshot_offset:
        return f"transaction from {first_offset}, which is not below the snapshot's offset"
    end_offset = reference.find_end_between(producer_id, first_offset, snapshot_offset)
    if end_offset is not None:
        return f"open transaction from {first_offset}, but it ended at {end_offset}"
    if log_first_offset is None or first_offset == log_first_offset:
        return None
    # The first records of the transaction may be lost or deleted.
    first_row = int(reference.rows["base_offset"][0])
    if first_offset < log_first_offset and (
        first_offset < first_row or reference.lost_offsets.overlaps(first_offset, log_first_offset)
    ):
        return None
    return f"open transaction from {first_offset}, but it started at {log_first_offset}"
