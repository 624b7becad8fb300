"""What brokers answer to the controller's requests, and what follows from it.

    LeaderAndIsr     what a broker cannot serve, its disk having failed, is offline
    UpdateMetadata   nothing
    StopReplica      what was to be deleted is, or could not be

An answer to a controller of another epoch, or of a broker in another, is about the past.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from odradek.controller.broker_link import Answer
from odradek.controller.context import Context, Replica
from odradek.controller.control_requests import deletions_answered
from odradek.controller.log_dirs import LogDirs
from odradek.protocol.api.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Deletions(Protocol):
    """The part of the deletion of topics that answers are for."""

    async def replicas_deleted(self, replicas: Collection[Replica]) -> None: ...

    async def failed(self, replicas: Collection[Replica]) -> None: ...


class Answers:
    """Where answers go."""

    def __init__(self, context: Context, log_dirs: LogDirs, deletions: Deletions) -> None:
        self._context = context
        self._log_dirs = log_dirs
        self._deletions = deletions

    async def received(self, answer: Answer) -> None:
        if not self._is_of_now(answer):
            return
        request, response = answer.request, answer.response
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            name = type(request).__name__
            log.error("Broker %d answers to a %s: %s", answer.broker, name, error.name)
        if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
            await self._stopped(answer.broker, request, response)
        elif isinstance(response, LeaderAndIsrResponse) and error is ErrorCode.NONE:
            await self._log_dirs.answered(answer, response)

    def _is_of_now(self, answer: Answer) -> bool:
        broker = self._context.brokers.get(answer.broker)
        is_from_now = broker is not None and broker.epoch == answer.broker_epoch
        return is_from_now and answer.request.controller_epoch == self._context.epoch

    async def _stopped(
        self, broker: int, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        deletions = deletions_answered(request, response)
        deleted = [Replica(each, broker) for each, code in deletions.items() if not code]
        failed = [Replica(each, broker) for each, code in deletions.items() if code]
        if failed:
            await self._deletions.failed(failed)
        if deleted:
            await self._deletions.replicas_deleted(deleted)
