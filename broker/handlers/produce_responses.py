"""What a Produce response tells of each partition that something went wrong with.

Owner: none; any thread.
"""

from __future__ import annotations

from odradek.broker.call import Call, Disconnect
from odradek.broker.handlers.produce_verification import NotVerified
from odradek.broker.handlers.refusals import words
from odradek.broker.replicas.partition import Partition
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import (
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeader,
    RecordListTooLarge,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.storage.admission.errors import InvalidRecords, InvalidTimestamps

NO_ANSWER = 0
#: Offsets and times that a line has only if all went well.
NOT_TOLD = -1
#: What is told without the start of the log.
_WITHOUT_START = (
    UnknownTopicOrPartition,
    NotLeader,
    MessageTooLarge,
    RecordListTooLarge,
    CorruptMessage,
    KafkaStorageError,
)

Line = ProduceResponse.Topic.Partition


def answered(topic: ProduceRequest.Topic, lines: list[Line]) -> ProduceResponse.Topic:
    return ProduceResponse.Topic(
        name=topic.name, topic_id=topic.topic_id, partition_responses=lines
    )


def tell(line: Line, partition: Partition | None, failure: KafkaError) -> None:
    """Without a partition, nothing was asked of one."""
    line.error_code = code_of(failure)
    line.base_offset = line.log_append_time_ms = line.log_start_offset = NOT_TOLD
    if partition is not None and not isinstance(failure, _WITHOUT_START):
        line.log_start_offset = partition.log.start_offset
    if isinstance(failure, NotVerified | InvalidRecords | InvalidTimestamps):
        line.error_message = failure.message
    if isinstance(failure, InvalidRecords | InvalidTimestamps):
        line.record_errors = [
            Line.RecordError(batch_index=place, batch_index_error_message=message)
            for place, message in failure.record_errors
        ]


def refused(call: Call[ProduceRequest], failure: KafkaError) -> ProduceResponse:
    """All of it, for one reason."""
    if call.request.acks == NO_ANSWER:
        raise Disconnect(f"acks=0, and nothing was appended: {failure}")
    told = []
    for topic in call.request.topic_data:
        lines = [
            Line(
                index=entry.index,
                error_code=code_of(failure),
                base_offset=NOT_TOLD,
                error_message=words(failure),
            )
            for entry in topic.partition_data
        ]
        if lines:
            told.append(answered(topic, lines))
    return ProduceResponse(responses=told)
