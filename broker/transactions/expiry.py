"""What time does to transactions: those open for too long are aborted, unused ids are forgotten.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.broker.transactions.decisions import decide_fence, is_expired, is_timed_out
from odradek.broker.transactions.records import transaction_key
from odradek.broker.transactions.shard import TransactionShard, wait_for
from odradek.broker.transactions.transaction_state import Transaction
from odradek.broker.turns import Turn
from odradek.protocol.errors import KafkaError

log = logging.getLogger(__name__)

#: So many tombstones are written at once, or fewer, if ids are long.
_AT_ONCE = 1000
#: What a batch has beside its keys, and a record beside its key: no more than this.
_BATCH_BYTES, _RECORD_BYTES = 100, 40


async def abort_timed_out(shards: Iterable[TransactionShard]) -> None:
    """Their producers are heard no more."""
    turn = Turn()
    for shard in shards:
        for txn in [*shard.transactions.values()]:
            if is_timed_out(txn, now_ms=shard.world.now_ms()):
                _abort(shard, txn)
            if turn.is_over:
                await turn.next()


def _abort(shard: TransactionShard, txn: Transaction) -> None:
    """One that cannot be replicated must not keep the others waiting."""
    world, transactional_id = shard.world, txn.transactional_id
    if shard.transactions.get(transactional_id) is not txn or shard.is_pending(transactional_id):
        return  # something has happened to it since
    record = decide_fence(txn, server_version=world.version(), now_ms=world.now_ms())
    try:
        waiting = shard.write(record)
    except KafkaError as failure:
        _tell_of_abort(txn, failure)
        return
    if waiting is None:
        _tell_of_abort(txn, None)
    else:
        waiting.add_done_callback(lambda known: _tell_of_abort(txn, known.result()))


def _tell_of_abort(txn: Transaction, failure: KafkaError | None) -> None:
    name = txn.transactional_id
    if failure is not None:
        log.warning("%r has been open for too long, and still is: %s", name, failure)
    else:
        log.info("%r has been open for %d ms: aborted", name, txn.timeout_ms)


async def forget_expired(shards: Iterable[TransactionShard]) -> None:
    """What cannot be written now is tried again the next time."""
    turn = Turn()
    for shard in shards:
        expired = []
        for txn in [*shard.transactions.values()]:
            if _is_expired(shard, txn):
                expired.append(txn)
            if turn.is_over:
                await turn.next()
        for batch in _batches(expired, bytes_max=shard.log.batch_bytes_max):
            await _forget(shard, batch)


def _batches(expired: Iterable[Transaction], *, bytes_max: int) -> Iterator[list[Transaction]]:
    """An id that is too long for any batch has one of its own, which keeps no other from going."""
    batch: list[Transaction] = []
    size_bytes = _BATCH_BYTES
    for txn in expired:
        more_bytes = len(transaction_key(txn.transactional_id)) + _RECORD_BYTES
        if batch and (len(batch) == _AT_ONCE or size_bytes + more_bytes > bytes_max):
            yield batch
            batch, size_bytes = [], _BATCH_BYTES
        batch.append(txn)
        size_bytes += more_bytes
    if batch:
        yield batch


async def _forget(shard: TransactionShard, expired: list[Transaction]) -> None:
    still = [
        txn
        for txn in expired
        if shard.transactions.get(txn.transactional_id) is txn and _is_expired(shard, txn)
    ]
    if not still:
        return
    try:
        await wait_for(shard.forget(still))
    except KafkaError as failure:
        log.warning("%d transactional ids have expired, but stay: %s", len(still), failure)
    else:
        log.info("%d transactional ids have expired", len(still))


def _is_expired(shard: TransactionShard, txn: Transaction) -> bool:
    world = shard.world
    return not shard.is_pending(txn.transactional_id) and is_expired(
        txn, expiration_ms=world.settings.id_expiration_ms, now_ms=world.now_ms()
    )
