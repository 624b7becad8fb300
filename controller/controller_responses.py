"""Handles the responses of brokers to control requests.

    LeaderAndIsr     partitions with a storage error on the broker become offline replicas
    UpdateMetadata   no effect
    StopReplica      replica deletions succeeded or failed

A response is ignored if it belongs to another controller epoch or to another epoch of the broker.
Kafka: KafkaController.processLeaderAndIsrResponseReceived, processTopicDeletionStopReplicaResponse.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from odradek.controller.control_request_builder import deletion_error_codes
from odradek.controller.controller_channel import BrokerResponse
from odradek.controller.controller_context import ControllerContext, PartitionAndReplica
from odradek.controller.log_dir_failures import LogDirFailures
from odradek.protocol.api.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.error_codes import ErrorCode

log = logging.getLogger("kafka.controller")


class TopicDeletions(Protocol):
    """The interface of TopicDeletionManager that StopReplica responses need."""

    async def complete_replica_deletion(
        self, replicas: Collection[PartitionAndReplica]
    ) -> None: ...

    async def fail_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None: ...


class ControllerResponseHandler:
    """Dispatches responses by request type."""

    def __init__(
        self,
        context: ControllerContext,
        log_dir_failures: LogDirFailures,
        topic_deletion_manager: TopicDeletions,
    ) -> None:
        self._context = context
        self._log_dir_failures = log_dir_failures
        self._topic_deletion_manager = topic_deletion_manager

    async def handle(self, broker_response: BrokerResponse) -> None:
        if not self._is_current(broker_response):
            return
        request, response = broker_response.request, broker_response.response
        error = ErrorCode.for_code(response.error_code)
        if error is not ErrorCode.NONE:
            name = type(request).__name__
            log.error(
                "Broker %d returned an error for %s: %s",
                broker_response.broker_id,
                name,
                error.name,
            )
        if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
            await self._handle_stop_replica_response(broker_response.broker_id, request, response)
        elif isinstance(response, LeaderAndIsrResponse) and error is ErrorCode.NONE:
            await self._log_dir_failures.process_leader_and_isr_response(broker_response, response)

    def _is_current(self, broker_response: BrokerResponse) -> bool:
        broker = self._context.brokers.get(broker_response.broker_id)
        is_from_now = broker is not None and broker.epoch == broker_response.broker_epoch
        return is_from_now and broker_response.request.controller_epoch == self._context.epoch

    async def _handle_stop_replica_response(
        self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        error_codes = deletion_error_codes(request, response)
        deleted = [
            PartitionAndReplica(partition, broker_id)
            for partition, code in error_codes.items()
            if not code
        ]
        failed = [
            PartitionAndReplica(partition, broker_id)
            for partition, code in error_codes.items()
            if code
        ]
        if failed:
            await self._topic_deletion_manager.fail_replica_deletion(failed)
        if deleted:
            await self._topic_deletion_manager.complete_replica_deletion(deleted)
