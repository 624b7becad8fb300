"""Aborts transactions that have timed out, and removes expired transactional ids.

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

log = logging.getLogger("kafka.coordinator.transaction")

#: The maximum number of tombstones in a batch; there are fewer if the ids are long.
_MAX_TOMBSTONES_PER_BATCH = 1000
#: Upper bounds: of a batch without its records, and of a record without its key.
_BATCH_OVERHEAD_BYTES, _RECORD_OVERHEAD_BYTES = 100, 40


async def abort_timed_out_transactions(shards: Iterable[TransactionStateShard]) -> None:
    """Abort the transactions that are open for longer than their timeout."""
    time_slice = TimeSlice()
    for shard in shards:
        for txn in [*shard.transactions.values()]:
            if is_timed_out(txn, now_ms=shard.context.now_ms()):
                _abort(shard, txn)
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()


def _abort(shard: TransactionStateShard, txn: TransactionMetadata) -> None:
    """Do not wait: an abort that cannot be replicated must not delay the others."""
    context, transactional_id = shard.context, txn.transactional_id
    if shard.transactions.get(transactional_id) is not txn or shard.has_pending_transition(
        transactional_id
    ):
        return  # the transaction has changed since it was checked
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
        log.warning(
            "Failed to roll back timed-out transaction for transactionalId %r: %s",
            transactional_id,
            error,
        )
    else:
        log.info(
            "Completed rollback of ongoing transaction for transactionalId %r due to timeout"
            " (%d ms)",
            transactional_id,
            txn.timeout_ms,
        )


async def remove_expired_transactional_ids(shards: Iterable[TransactionStateShard]) -> None:
    """Write tombstones for expired ids; the next run retries what cannot be written now."""
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
    """Yield batches; an id that is too long for any batch gets its own and delays no other id."""
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
        log.warning(
            "Failed to remove %d expired transactional id(s): %s", len(still_expired), error
        )
    else:
        log.info("Removed %d expired transactional id(s)", len(still_expired))


def _is_expired(shard: TransactionStateShard, txn: TransactionMetadata) -> bool:
    context = shard.context
    return not shard.has_pending_transition(txn.transactional_id) and is_expired(
        txn, expiration_ms=context.settings.transactional_id_expiration_ms, now_ms=context.now_ms()
    )
