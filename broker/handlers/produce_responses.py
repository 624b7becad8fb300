"""The errors of partitions in a Produce response.

Owner: none; any thread.
"""

from __future__ import annotations

from odradek.broker.handlers.error_messages import error_message
from odradek.broker.handlers.produce_verification import NotVerified
from odradek.broker.replicas.partition import Partition
from odradek.broker.request import Disconnect, Request
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import (
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.storage.validation.errors import InvalidRecords, InvalidTimestamps

ACKS_NONE = 0
#: Offset, append time and log start offset of a partition that failed.
INVALID_OFFSET = -1
#: Errors that are returned without the log start offset.
_ERRORS_WITHOUT_LOG_START_OFFSET = (
    UnknownTopicOrPartition,
    NotLeaderOrFollower,
    MessageTooLarge,
    RecordListTooLarge,
    CorruptMessage,
    KafkaStorageError,
)

PartitionResponse = ProduceResponse.Topic.Partition


def topic_response(
    topic: ProduceRequest.Topic, partition_responses: list[PartitionResponse]
) -> ProduceResponse.Topic:
    return ProduceResponse.Topic(
        name=topic.name, topic_id=topic.topic_id, partition_responses=partition_responses
    )


def set_error(
    partition_response: PartitionResponse, partition: Partition | None, error: KafkaError
) -> None:
    """``partition`` is None if the entry was rejected before the append."""
    partition_response.error_code = code_of(error)
    partition_response.base_offset = partition_response.log_append_time_ms = (
        partition_response.log_start_offset
    ) = INVALID_OFFSET
    if partition is not None and not isinstance(error, _ERRORS_WITHOUT_LOG_START_OFFSET):
        partition_response.log_start_offset = partition.log.log_start_offset
    if isinstance(error, NotVerified | InvalidRecords | InvalidTimestamps):
        partition_response.error_message = error.message
    if isinstance(error, InvalidRecords | InvalidTimestamps):
        partition_response.record_errors = [
            PartitionResponse.RecordError(
                batch_index=batch_index, batch_index_error_message=message
            )
            for batch_index, message in error.record_errors
        ]


def error_response(request: Request[ProduceRequest], error: KafkaError) -> ProduceResponse:
    """Return the same error for every partition."""
    if request.body.acks == ACKS_NONE:
        raise Disconnect(f"error during produce request with acks=0: {error}")
    topic_responses = []
    for topic in request.body.topic_data:
        partition_responses = [
            PartitionResponse(
                index=entry.index,
                error_code=code_of(error),
                base_offset=INVALID_OFFSET,
                error_message=error_message(error),
            )
            for entry in topic.partition_data
        ]
        if partition_responses:
            topic_responses.append(topic_response(topic, partition_responses))
    return ProduceResponse(responses=topic_responses)
