"""Allocation of producer ids in blocks.  Kafka: ZkProducerIdManager, processAllocateProducerIds.

Invariant: no two brokers ever assign the same producer id.

The store holds the block that was allocated last, and the next block starts after it.  The write
that claims a block is conditional on the znode's version, because brokers with an inter-broker
protocol before 3.0 claim blocks without the controller.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging

from odradek.controller.controller_services import ControllerServices
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, StaleBrokerEpoch

log = logging.getLogger("kafka.controller")

BLOCK_SIZE = 1000
LAST_ID = 2**63 - 1


async def allocate(
    services: ControllerServices, broker_id: int, *, broker_epoch: int
) -> ProducerIdsBlock:
    """Allocate the next block to this broker."""
    broker = services.context.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch
    while True:
        latest = await services.reader.get_latest_producer_id_block()
        block = _next_block(latest.block, broker_id)
        if await services.writer.claim_producer_id_block(block, version=latest.version):
            start, end = block.block_start, block.block_end
            log.info("Allocated producer ids to broker %d: from %d to %d", broker_id, start, end)
            return block


def _next_block(latest: ProducerIdsBlock | None, broker_id: int) -> ProducerIdsBlock:
    first = 0 if latest is None else latest.block_end + 1
    if first > LAST_ID - BLOCK_SIZE:
        raise KafkaError("No producer ids are left: the last block has been allocated.")
    return ProducerIdsBlock(broker_id, block_start=first, block_end=first + BLOCK_SIZE - 1)
