"""Producer ids, in blocks: no two brokers ever give away the same one.

The store holds the block that was given away last; the next begins after it, and is claimed by a
write that is conditional on nobody having claimed one meanwhile: brokers that speak a version
before 3.0 claim theirs themselves.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging

from odradek.controller.machinery import Machinery
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, StaleBrokerEpoch

log = logging.getLogger(__name__)

BLOCK_SIZE = 1000
LAST_ID = 2**63 - 1


async def allocate(machinery: Machinery, broker: int, *, broker_epoch: int) -> ProducerIdBlock:
    """A block for this broker alone."""
    known = machinery.context.brokers.get(broker)
    if known is None:
        raise KafkaError(error=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if known.epoch != broker_epoch:
        raise StaleBrokerEpoch
    while True:
        latest = await machinery.reads.latest_producer_ids()
        block = _next(latest.block, broker)
        if await machinery.writes.claim_producer_ids(block, version=latest.version):
            start, end = block.block_start, block.block_end
            log.info("Broker %d has the producer ids from %d to %d", broker, start, end)
            return block


def _next(latest: ProducerIdBlock | None, broker: int) -> ProducerIdBlock:
    first = 0 if latest is None else latest.block_end + 1
    if first > LAST_ID - BLOCK_SIZE:
        raise KafkaError("There are no producer ids left.")
    return ProducerIdBlock(broker, block_start=first, block_end=first + BLOCK_SIZE - 1)
