"""What time does to transactions: those open for too long are aborted, unused ids are forgotten.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.broker.time_slice import TimeSlice
from odradek.broker.transactions.decisions import decide_fence, is_expired, is_timed_out
from odradek.broker.transactions.records import transaction_key
from odradek.broker.transactions.shard import TransactionStateShard, wait_for_append
from odradek.broker.transactions.transaction_state import TransactionMetadata
from odradek.protocol.errors import KafkaError

log = logging.getLogger(__name__)

#: So many tombstones are written at once, or fewer, if ids are long.
_MAX_TOMBSTONES_PER_BATCH = 1000
#: What a batch has beside its keys, and a record beside its key: no more than this.
_BATCH_OVERHEAD_BYTES, _RECORD_OVERHEAD_BYTES = 100, 40


async def abort_timed_out_transactions(shards: Iterable[TransactionStateShard]) -> None:
    """Their producers are heard no more."""
    time_slice = TimeSlice()
    for shard in shards:
        for txn in [*shard.transactions.values()]:
            if is_timed_out(txn, now_ms=shard.context.now_ms()):
                _abort(shard, txn)
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()


def _abort(shard: TransactionStateShard, txn: TransactionMetadata) -> None:
    """One that cannot be replicated must not keep the others waiting."""
    context, transactional_id = shard.context, txn.transactional_id
    if shard.transactions.get(transactional_id) is not txn or shard.has_pending_transition(
        transactional_id
    ):
        return  # something has happened to it since
    record = decide_fence(
        txn, transaction_version=context.transaction_version(), now_ms=context.now_ms()
    )
    try:
        pending_append = shard.write(record)
    except KafkaError as error:
        _log_abort(txn, error)
        return
    if pending_append is None:
        _log_abort(txn, None)
    else:
        pending_append.add_done_callback(lambda future: _log_abort(txn, future.result()))


def _log_abort(txn: TransactionMetadata, error: KafkaError | None) -> None:
    transactional_id = txn.transactional_id
    if error is not None:
        log.warning("%r has been open for too long, and still is: %s", transactional_id, error)
    else:
        log.info("%r has been open for %d ms: aborted", transactional_id, txn.timeout_ms)


async def remove_expired_transactional_ids(shards: Iterable[TransactionStateShard]) -> None:
    """What cannot be written now is tried again the next time."""
    time_slice = TimeSlice()
    for shard in shards:
        expired = []
        for txn in [*shard.transactions.values()]:
            if _is_expired(shard, txn):
                expired.append(txn)
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
        for batch in _tombstone_batches(expired, max_bytes=shard.log.max_message_bytes):
            await _write_tombstones(shard, batch)


def _tombstone_batches(
    expired: Iterable[TransactionMetadata], *, max_bytes: int
) -> Iterator[list[TransactionMetadata]]:
    """An id that is too long for any batch has one of its own, which keeps no other from going."""
    batch: list[TransactionMetadata] = []
    size_bytes = _BATCH_OVERHEAD_BYTES
    for txn in expired:
        record_bytes = len(transaction_key(txn.transactional_id)) + _RECORD_OVERHEAD_BYTES
        if batch and (
            len(batch) == _MAX_TOMBSTONES_PER_BATCH or size_bytes + record_bytes > max_bytes
        ):
            yield batch
            batch, size_bytes = [], _BATCH_OVERHEAD_BYTES
        batch.append(txn)
        size_bytes += record_bytes
    if batch:
        yield batch


async def _write_tombstones(
    shard: TransactionStateShard, expired: list[TransactionMetadata]
) -> None:
    still_expired = [
        txn
        for txn in expired
        if shard.transactions.get(txn.transactional_id) is txn and _is_expired(shard, txn)
    ]
    if not still_expired:
        return
    try:
        await wait_for_append(shard.write_tombstones(still_expired))
    except KafkaError as error:
        log.warning("%d transactional ids have expired, but stay: %s", len(still_expired), error)
    else:
        log.info("%d transactional ids have expired", len(still_expired))


def _is_expired(shard: TransactionStateShard, txn: TransactionMetadata) -> bool:
    context = shard.context
    return not shard.has_pending_transition(txn.transactional_id) and is_expired(
        txn, expiration_ms=context.settings.transactional_id_expiration_ms, now_ms=context.now_ms()
    )
