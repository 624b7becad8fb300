"""All batches of a log, read once from its beginning, and whether its quicker answers agree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.timestamp_lookup import offset_for_timestamp, offset_of_max_timestamp
from odradek.storage.unified_log import UnifiedLog
from tests.support.log_model import LogModel, ModelBatch
from tests.support.logs import NOW_MS, bytes_of, records_batch


@dataclass(frozen=True)
class FoundBatch:
    """A batch that passed its checksum."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    batch: ModelBatch


def survey(log: UnifiedLog) -> list[FoundBatch]:
    found = []
    for segment in log.segments:
        for _, batch in segment.batches():
            batch.check_crc()
            found.append(
                FoundBatch(
                    batch.base_offset,
                    batch.last_offset,
                    batch.partition_leader_epoch,
                    as_model(batch),
                )
            )
    for before, after in pairwise(found):
        assert before.last_offset < after.base_offset, f"{before} and {after} overlap in {log}"
    return found


def as_model(batch: AnyBatch) -> ModelBatch:
    if batch.is_control:
        (record,) = batch.records()
        marker = parse_end_transaction_marker(record)
        assert marker is not None, batch
        return ModelBatch(
            (Record(record.offset, record.timestamp, None, None),),
            batch.base_offset,
            batch.producer_id,
            ends="commit" if marker.is_commit else "abort",
        )
    return ModelBatch(
        tuple(batch.records()),
        batch.base_offset,
        batch.producer_id,
        batch.base_sequence,
        batch.is_transactional,
    )


def check_answers(log: UnifiedLog, found: list[FoundBatch]) -> None:
    """Reads from every offset and lookups of every timestamp say what a walk over all says."""
    _check_reads(log, found)
    _check_timestamps(log, found)


def _check_reads(log: UnifiedLog, found: list[FoundBatch]) -> None:
    scanned = iter(found)
    current = next(scanned, None)
    for offset in range(log.log_start_offset, log.log_end_offset):
        while current is not None and current.last_offset < offset:
            current = next(scanned, None)
        region = log.read(offset, max_bytes=1, max_offset=log.log_end_offset)
        first = next(iter(batches_of_any_magic(bytes_of(region))), None)
        if current is None:
            assert first is None, f"{first} at {offset} of {log}, where nothing is"
        else:
            assert first is not None, f"nothing at {offset} of {log} instead of {current}"
            assert as_model(first) == current.batch, f"at {offset} of {log}"
    assert not log.read(log.log_end_offset, max_bytes=1, max_offset=log.log_end_offset)


def _check_timestamps(log: UnifiedLog, found: list[FoundBatch]) -> None:
    records = [
        record
        for each in found
        for record in each.batch.records
        if record.offset >= log.log_start_offset
    ]
    timestamps = {record.timestamp for record in records}
    for timestamp in timestamps | {each + 1 for each in timestamps}:
        expected = next((r.offset for r in records if r.timestamp >= timestamp), None)
        answer = offset_for_timestamp(log, timestamp)
        assert (answer.offset if answer else None) == expected, f"{timestamp} in {log}"
    if log.settings.is_compacted or log.log_start_offset > log.segments.first.base_offset:
        return
    largest = offset_of_max_timestamp(log)
    assert (largest.timestamp if largest else -1) == max(timestamps, default=-1), log


def check_epochs(log: UnifiedLog, found: list[FoundBatch], *, start: int) -> None:
    """From ``start`` on the epochs are those that the batches have."""
    for each in found:
        if each.last_offset >= start:
            known = log.leader_epoch_cache.epoch_for_offset(max(each.base_offset, start))
            assert known == each.leader_epoch, (each, log.leader_epoch_cache.entries)
    assert all(
        entry.start_offset <= log.log_end_offset for entry in log.leader_epoch_cache.entries
    ), log


def check_transactions(log: UnifiedLog, model: LogModel) -> None:
    """Aborted transactions and the last stable offset, which no open one may precede."""
    start, end = log.log_start_offset, log.log_end_offset
    answer = [each[:3] for each in log.collect_aborted_transactions(start=start, end=end)]
    expected = model.aborted(start, end)
    assert _with_records(answer, log, model) == _with_records(expected, log, model), log
    if all(first >= start for first in model.open_transactions().values()):
        assert log.last_stable_offset == model.last_stable_offset(), log


def _with_records(
    aborted: list[tuple[int, int, int]], log: UnifiedLog, model: LogModel
) -> set[tuple[int, int]]:
    """Which data batches of the log they are about: what was deleted may be known or not."""
    return {
        (batch.base_offset, last)
        for producer_id, first, last in aborted
        for batch in model.history
        if batch.producer_id == producer_id
        and batch.last_offset >= log.log_start_offset
        and first <= batch.base_offset < last
    }


def check_retries(log: UnifiedLog, model: LogModel) -> None:
    """Whoever repeats the last batch that is in the log is told where it is."""
    producers = {batch.producer_id for batch in model.history if batch.producer_id >= 0}
    for producer_id in producers:
        batch = next(iter(model.last_batches(producer_id)[-1:]), None)
        if batch is None or batch.base_offset < log.log_start_offset:
            continue
        written = log.append_as_leader(
            repeated(batch), leader_epoch=99, origin=AppendOrigin.CLIENT, now_ms=NOW_MS
        )
        assert (written.is_duplicate, written.first_offset) == (True, batch.base_offset), batch


def repeated(batch: ModelBatch) -> bytearray:
    """What the producer sent."""
    return records_batch(
        *(record.value or b"" for record in batch.records),
        key=batch.records[0].key,
        timestamp=batch.records[0].timestamp,
        producer_id=batch.producer_id,
        producer_epoch=0,
        base_sequence=batch.sequence,
        is_transactional=batch.is_transactional,
    )
